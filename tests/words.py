"""Words that no identifier and no module is made of: metaphors where the field has a term. `python -m tests.words` is part of `nox -s style`.

A file that has such words may keep them until it is changed: words_to_go.txt lists those files by the hash of what is in them. The list may
only shrink: `python -m tests.words --shrink` takes out the lines that are not needed any more, and nothing puts one in.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_name("words_to_go.txt")
WORDS = frozenset(
    "told said place left begun lend borrowed unasked given kept keeping ways endings turns gates whoever nobody".split()
)
OF_OTHERS = {"bisect_left", "ThreadLeftBehind", "TaskLeftBehind"}  # Python's own, and two events: left behind


def words_of(name: str) -> set[str]:
    """Return the words that a name is made of, in either style."""
    return {part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}


def found_in(path: str, text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each identifier with such a word; line 0 for the file's own name."""
    if words_of(Path(path).stem) & WORDS:
        yield 0, Path(path).stem
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and words_of(token.string) & WORDS and not _is_of_others(token):
            yield token.start[0], token.string


def _is_of_others(token: tokenize.TokenInfo) -> bool:
    """Whether the name is another project's: of the list, or the decorator of hypothesis."""
    is_decorator = token.string == "given" and token.line.lstrip().startswith(
        ("@given(", "from hypothesis import")
    )
    return token.string in OF_OTHERS or is_decorator


def digest(text: str) -> str:
    """Return the hash by which the list knows what is in a file."""
    return sha256(text.encode()).hexdigest()[:16]


def problems(files: Mapping[str, str], listed: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return what is wrong with the files, and the lines of the list that are not needed any more."""
    wrong, needed = [], set()
    for path, text in files.items():
        names = list(found_in(path, text))
        if names and listed.get(path) == digest(text):
            needed.add(path)
        else:
            wrong += [f"{path}:{line}: {name}" for line, name in names]
    return wrong, sorted(listed.keys() - needed)


def main(arguments: list[str]) -> int:
    """Print what is wrong; return 1 if anything is."""
    paths = [path for room in ("resilient_bridge", "tests", "bench") for path in (ROOT / room).rglob("*.py")]
    files = {
        str(path.relative_to(ROOT)): path.read_text()
        for path in sorted(paths)
        if "node_modules" not in path.parts
    }
    listed = {path: known for known, path in map(str.split, LIST.read_text().splitlines())}
    wrong, not_needed = problems(files, listed)
    if "--shrink" in arguments:
        lines = [f"{known} {path}" for path, known in listed.items() if path not in not_needed]
        LIST.write_text("".join(f"{line}\n" for line in lines))
        not_needed = []
    for line in wrong:
        sys.stdout.write(f"{line} has a word that is to go: say what it is in the field's word\n")
    for path in not_needed:
        sys.stdout.write(f"{path} needs no line in {LIST.name} any more: python -m tests.words --shrink\n")
    return 1 if wrong or not_needed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
