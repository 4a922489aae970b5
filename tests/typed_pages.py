"""The pages of docs/ whose blocks of Python are type-checked: `python -m tests.typed_pages DIRECTORY` writes each page's as one file.

Rule: a page that is clean stays so; the others show fragments, or read what only a test would.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path


DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```python[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [
    "dialects/agno.md",
    "dialects/centrifugo.md",
    "dialects/jsonrpc.md",
    "dialects/jupyter.md",
    "dialects/last-event-id.md",
    "dialects/mattermost.md",
    "dialects/openhands.md",
    "dialects/plain.md",
    "dialects/recursor.md",
    "dialects/sequence.md",
    "dialects/since.md",
    "dialects/slack-socket-mode.md",
    "dialects/socketio.md",
    "how-to/bound-spending.md",
    "how-to/coming-from-backoff.md",
    "how-to/coming-from-httpx-retries.md",
    "how-to/coming-from-nopanic.md",
    "how-to/coming-from-pybreaker.md",
    "how-to/coming-from-pyresilience.md",
    "how-to/coming-from-stamina.md",
    "how-to/coming-from-tenacity.md",
    "how-to/coming-from-websockets.md",
    "how-to/configure-from-a-file.md",
    "how-to/explain-an-error.md",
    "how-to/is-it-safe-to-repeat.md",
    "how-to/keep-messages-across-restarts.md",
    "how-to/look-at-a-schedule.md",
    "how-to/read-server-sent-events.md",
    "how-to/suggest-fixes.md",
    "how-to/test-your-policies.md",
    "how-to/validate-hook-events.md",
    "reference/events.md",
    "reference/positions.md",
    "reference/severity.md",
    "strategies/backoff.md",
    "strategies/breaker.md",
    "strategies/bulkhead.md",
    "strategies/composition.md",
    "strategies/index.md",
    "strategies/rate-limit.md",
]


def write(directory: Path) -> None:
    """Write the files."""
    for page in PAGES:
        path = directory / (re.sub(r"\W", "_", page.removesuffix(".md")) + ".py")
        path.write_text("\n\n".join(BLOCK.findall((DOCS / page).read_text())))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
