"""What the site's search knows, and which page it has to find first for the words that people search.

Rule: the generator makes the index and the browser ranks it: words at the start of a title first. Here what users do not search for is
taken out, a docstring is listed under its full name, so that a guide with the same word comes before it, and what ranks equally stands
in the order of the navigation.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


HIDDEN = ("design/", "project/changelog")  # on the site, and not in its search
LISTED = {
    "how-to/keep-an-mcp-server-alive.html": "MCP server: keep it alive"
}  # found by one word, which its heading has late
FIRST = {  # what people search, and the page that answers it
    "circuit breaker": "strategies/breaker",
    "exponential backoff": "strategies/backoff",
    "retry": "strategies/retry",
    "retry exponential backoff": "strategies/retry",
    "retry budget": "strategies/retry-budget",
    "rate limit": "strategies/rate-limit",
    "timeout": "strategies/timeout",
    "deadline": "strategies/deadline",
    "bulkhead": "strategies/bulkhead",
    "limit concurrency": "strategies/bulkhead",
    "fallback": "strategies/fallback",
    "websocket": "how-to/talk-to-another-bridge",
    "websocket reconnect": "how-to/talk-to-another-bridge",
    "reconnecting websocket client": "how-to/talk-to-another-bridge",
    "mcp": "how-to/keep-an-mcp-server-alive",
    "mcp server": "how-to/keep-an-mcp-server-alive",
    "mcp client": "how-to/wrap-an-mcp-client",
    "idempotent": "how-to/is-it-safe-to-repeat",
    "429": "how-to/wrap-an-http-client",
    "httpx": "how-to/wrap-an-http-client",
    "requests": "how-to/wrap-requests-and-aiohttp",
    "openai": "how-to/wrap-a-provider-sdk",
    "outbox": "how-to/keep-messages-across-restarts",
    "dead letter": "examples/webhook_sender",
    "sse": "how-to/read-server-sent-events",
    "prometheus": "how-to/metrics",
    "opentelemetry": "how-to/traces",
    "health check": "how-to/health",
    "configuration": "how-to/configure-from-a-file",
    "tenacity": "how-to/coming-from-tenacity",
}


def page_of(item: Mapping[str, Any]) -> str:
    """Return the page that an item of the index is on, without its ending."""
    location: str = item["location"]
    return location.partition("#")[0].removesuffix(".html")


def _title(location: str, heading: str) -> str:
    """Return what an item of the index is called in the results."""
    page, _, name = location.partition("#")
    return name if name and page.startswith("api/") else LISTED.get(location, heading)


def for_users(items: Iterable[dict[str, Any]], pages: Iterable[str]) -> list[dict[str, Any]]:
    """Return the items of the index without the hidden pages, names in full, in the order of `pages` (paths of Markdown files)."""
    order = {page.removesuffix(".md"): number for number, page in enumerate(pages)}
    shown = [
        {**item, "title": _title(item["location"], item["title"])}
        for item in items
        if not item["location"].startswith(HIDDEN)
    ]
    return sorted(shown, key=lambda item: order.get(page_of(item), len(order)))


def problems(index: Path, worker: Path, wanted: Mapping[str, str]) -> list[str]:
    """Return the words for which the site's search does not find the wanted page first; nothing is asked where node is not installed."""
    if not (node := shutil.which("node")):
        return []
    command = [node, str(Path(__file__).with_name("search.mjs")), str(worker), str(index)]
    done = subprocess.run(  # noqa: S603 - node, with the script beside this file
        command, input=json.dumps([*wanted]), capture_output=True, text=True, check=True
    )
    return [
        f"search for {words!r}: {wanted[words]} expected first, got {', '.join(found[:3]) or 'nothing'}"
        for words, found in json.loads(done.stdout).items()
        if not found or page_of({"location": found[0]}) != wanted[words]
    ]
