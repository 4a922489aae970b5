"""How large the package is: files, lines and functions of each room, and the difference to an older commit.

    python bench/lines.py [REV] [--against REV] [--small]  # the working tree, or a commit; both and the difference; without tests/

Lines of code are neither blank nor a comment of their own nor in a docstring; prose is docstrings and those comments. A private function
(`_name`, at the top of a module or in a class) has one caller if its name is used in one other function or place of the package; a name
that several share is not counted. Pure lines are those of the modules in the contract `purity` of pyproject.toml.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tarfile
import tomllib
from collections import Counter, defaultdict
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from pathlib import Path


ROOT = Path(__file__).parents[1]
PACKAGE = "resilient_bridge"
SHORT = 60  # lines of a file that is hardly one


@dataclass
class Size:
    """What is counted."""

    files: int = 0
    short: int = 0
    lines: int = 0
    code: int = 0
    prose: int = 0
    functions: int = 0
    one_caller: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(*(a + b for a, b in zip(self.numbers, other.numbers, strict=True)))

    def __sub__(self, other: Size) -> Size:
        return Size(*(a - b for a, b in zip(self.numbers, other.numbers, strict=True)))

    @property
    def numbers(self) -> list[int]:
        return [getattr(self, field.name) for field in fields(self)]


def sources(revision: str | None, folders: list[str]) -> dict[str, str]:
    """The text of each module of the package and the tests, and of pyproject.toml, by path."""
    if revision is None:
        paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
        paths.append(ROOT / "pyproject.toml")
        return {
            str(path.relative_to(ROOT)): path.read_text()
            for path in paths
            if "node_modules" not in path.parts
        }
    command = ["git", "archive", "--format=tar", revision, *folders, "pyproject.toml"]
    packed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    found: dict[str, str] = {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is not None and member.name.endswith((".py", ".toml")):
                found[member.name] = content.read().decode()
    return found


def _docstring_lines(tree: ast.Module) -> set[int]:
    found: set[int] = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list) or isinstance(node, ast.If | ast.For | ast.While | ast.With):
            continue
        for each in body:  # a text that stands alone documents what is above it
            if (
                isinstance(each, ast.Expr)
                and isinstance(each.value, ast.Constant)
                and isinstance(each.value.value, str)
            ):
                found.update(range(each.lineno, (each.end_lineno or each.lineno) + 1))
    return found


def size_of(text: str, tree: ast.Module) -> Size:
    """Count one module."""
    prose, code, comments = _docstring_lines(tree), 0, 0
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        begin = line.lstrip()[:1]
        if begin and number not in prose:
            comments += begin == "#"
            code += begin != "#"
    functions = sum(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in ast.walk(tree))  # fmt: skip
    is_short = int(len(lines) < SHORT)
    return Size(1, is_short, len(lines), code, len(prose) + comments, functions)


def _names_used(node: ast.AST) -> Counter[str]:
    return Counter(
        each.id if isinstance(each, ast.Name) else each.attr if isinstance(each, ast.Attribute) else each.name
        for each in ast.walk(node)
        if isinstance(each, ast.Name | ast.Attribute | ast.alias)
    )  # fmt: skip


def one_caller(trees: dict[str, ast.Module]) -> Counter[str]:
    """How many private functions of each module have their name used exactly once, outside of themselves."""
    defined: dict[str, list[tuple[str, ast.AST]]] = defaultdict(list)
    used: Counter[str] = Counter()
    for path, tree in trees.items():
        used += _names_used(tree)
        for holder in [tree, *(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]:
            for node in holder.body:
                if (
                    isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                    and node.name.startswith("_")
                    and not node.name.endswith("__")
                ):
                    defined[node.name].append((path, node))
    return Counter(
        places[0][0]
        for name, places in defined.items()
        if len(places) == 1 and used[name] - _names_used(places[0][1])[name] == 1
    )


def _room(path: str) -> str:
    parts = path.split("/")
    if parts[0] == "tests":
        return "tests/"
    return parts[1] if len(parts) > 2 else "the rest"


def rows_of(texts: dict[str, str]) -> tuple[dict[str, Size], int]:
    """The size of each room, of the package and of the tests; and the number of pure lines."""
    modules = {path: text for path, text in texts.items() if path.endswith(".py")}
    trees = {path: ast.parse(text) for path, text in modules.items()}
    callers = one_caller({path: tree for path, tree in trees.items() if path.startswith(PACKAGE)})
    contracts = tomllib.loads(texts["pyproject.toml"])["tool"]["importlinter"]["contracts"]
    pure = next(one["source_modules"] for one in contracts if one.get("id") == "purity")
    rooms: dict[str, Size] = defaultdict(Size)
    pure_lines = 0
    for path, text in sorted(modules.items()):
        size = size_of(text, trees[path])
        size.one_caller = callers[path]
        rooms[_room(path)] += size
        dotted = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        if any(fnmatchcase(dotted, name) or dotted.startswith(f"{name}.") for name in pure):
            pure_lines += size.lines
    tests = rooms.pop("tests/", Size())
    package = sum(rooms.values(), Size())
    return {**dict(sorted(rooms.items())), PACKAGE: package, "tests/": tests}, pure_lines


def show(title: str, rows: dict[str, Size], pure: int) -> None:
    """Print one table."""
    heads = ["files", f"under {SHORT}", "lines", "code", "prose", "functions", "one caller"]
    print(f"{title}\n{'':18}{''.join(f'{head:>12}' for head in heads)}")
    for name, size in rows.items():
        print(f"{name:18}{''.join(f'{number:12,}' for number in size.numbers)}")
    print(f"{'pure lines':18}{'':24}{pure:12,}\n")


def main(words: list[str]) -> None:
    """Print the tables that the words ask for."""
    folders = [PACKAGE] if "--small" in words else [PACKAGE, "tests"]
    match [word for word in words if word != "--small"]:
        case []:
            revision, against = None, None
        case ["--against", against]:
            revision = None
        case [revision]:
            against = None
        case [revision, "--against", against]:
            pass
        case _:
            sys.exit(__doc__)
    rows, pure = rows_of(sources(revision, folders))
    if against is not None:
        before, pure_before = rows_of(sources(against, folders))
        show(against, before, pure_before)
        names = sorted({**before, **rows}, key=lambda name: (name in {PACKAGE, "tests/"}, name))
        less = {name: rows.get(name, Size()) - before.get(name, Size()) for name in names}
        show("difference", less, pure - pure_before)
    show(revision or "working tree", rows, pure)


if __name__ == "__main__":
    main(sys.argv[1:])
