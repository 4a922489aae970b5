"""Words that no identifier and no module is made of: metaphors where the field has a term. `python -m tests.words` is part of `nox -s style`."""

from __future__ import annotations

import io
import re
import sys
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
WORDS = frozenset(
    "told said place left begun lend borrowed unasked given kept keeping ways endings turns gates whoever nobody".split()
)
OF_OTHERS = {"bisect_left", "CallLeftBehind"}  # Python's own, and an event: left behind


def words_of(name: str) -> set[str]:
    """Return the words that a name is made of, in either style."""
    return {part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}


def found_in(path: str, text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each identifier with such a word; line 0 for the file's own name."""
    if words_of(Path(path).stem) & WORDS:
        yield 0, Path(path).stem
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if (
            token.type == tokenize.NAME
            and words_of(token.string) & WORDS
            and not _is_of_others(token)
        ):
            yield token.start[0], token.string


def _is_of_others(token: tokenize.TokenInfo) -> bool:
    """Whether the name is another project's: of the list, or the decorator of hypothesis."""
    is_decorator = token.string == "given" and token.line.lstrip().startswith(
        ("@given(", "from hypothesis import")
    )
    return token.string in OF_OTHERS or is_decorator


def main() -> int:
    """Print each such name with its line; return 1 if there is any."""
    paths = [
        path
        for room in ("resilient_bridge", "tests", "bench")
        for path in (ROOT / room).rglob("*.py")
    ]
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sorted(paths)
        if "node_modules" not in path.parts
        for line, name in found_in(str(path.relative_to(ROOT)), path.read_text())
    ]
    for line in wrong:
        sys.stdout.write(f"{line} is a metaphor: use the field's word\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
