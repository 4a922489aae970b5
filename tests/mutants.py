"""Faults that the tests have to see: each row of tests/mutants.toml breaks one rule of the package, and names a test that fails then.

    python -m tests.mutants run [ID ...]      # `nox -s mutation`: each row, or these, in copies of the tree
    python -m tests.mutants draw COUNT [SEED] # rows for faults drawn over all modules, without rule and test
    python -m tests.mutants find FILE [ID ...] [tests/PATH ...]  # run these, or the tests of a row's room: which fail?

Rule: nothing is changed in place. Each worker has a copy of the tree, so a run that is ended leaves only a folder in /tmp.
"""

from __future__ import annotations

import ast
import os
import queue
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "resilient_bridge"
ROWS = Path(__file__).with_suffix(".toml")
SEED = 20261128
LEAST = 0.90  # of the rows have to be caught
WORKERS = 2
ANY_MARK = ("-m", "")  # a row may name a test of a long campaign
LONGEST = 180  # seconds for the test of one row; a fault that never ends is caught
COPIED = shutil.ignore_patterns(
    ".git", ".venv", ".nox", ".*_cache", ".hypothesis", "node_modules", "site", "dist"
)


@dataclass(frozen=True)
class Mutant:
    """One row: in `file`, `replace` stands where `search` stood, which breaks `rule`; `test` fails then."""

    id: str
    rule: str
    room: str
    file: str
    search: str
    replace: str
    test: str

    def applied(self, text: str) -> str:
        """The text of the file with the fault; ValueError unless the search text occurs once."""
        if (count := text.count(self.search)) != 1:
            message = (
                f"{self.id}: the search text once in {self.file} expected, got it {count} times"
            )
            raise ValueError(message)
        return text.replace(self.search, self.replace)


def mutants(path: Path = ROWS) -> list[Mutant]:
    """The rows of a file."""
    return [Mutant(**row) for row in tomllib.loads(path.read_text())["mutant"]]


def problem_of(mutant: Mutant, root: Path = ROOT) -> str:
    """What is wrong with a row, without running it; "" if nothing is."""
    path, (file, _, name) = root / mutant.file, mutant.test.partition("::")
    if not path.is_file():
        return f"{mutant.id}: no file {mutant.file}"
    try:
        broken = ast.parse(mutant.applied(path.read_text()))
    except (ValueError, SyntaxError) as error:
        return f"{mutant.id}: {error}"
    if ast.dump(broken) == ast.dump(ast.parse(path.read_text())):
        return f"{mutant.id}: the replacement changes nothing"
    if mutant.file.split("/")[1] not in {mutant.room, f"{mutant.room}.py"}:
        return f"{mutant.id}: {mutant.file} is not in the room {mutant.room}"
    function = name.partition("[")[0].rpartition("::")[2]
    if not (root / file).is_file() or f"def {function}(" not in (root / file).read_text():
        return f"{mutant.id}: no test {mutant.test}"
    return ""


# ---- running -----------------------------------------------------------------------------------------------------------
class Copy:
    """A copy of the tree, in which one file at a time is broken."""

    def __init__(self, root: Path = ROOT) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="mutants-")
        self.root, self._original, self._changes = Path(self._folder.name) / "tree", root, 0
        shutil.copytree(root, self.root, ignore=COPIED, symlinks=True)
        if (modules := root / "tests/node/node_modules").is_dir():
            (self.root / "tests/node/node_modules").symlink_to(modules)

    def close(self) -> None:
        """Remove it."""
        self._folder.cleanup()

    def fails(self, mutant: Mutant, *arguments: str) -> tuple[bool, str]:
        """Whether one of the tests of these arguments of pytest fails with the fault, and what it printed."""
        path = self.root / mutant.file
        before = path.stat()
        whole = path.read_text()
        try:
            path.write_text(mutant.applied(whole))
            # A time of its own: Python compares times in whole seconds before it compiles a file again.
            self._changes += 1
            os.utime(path, (before.st_atime, int(before.st_mtime) + 1_000 + self._changes))
            code, printed = self.pytest("-x", "-n", "0", *arguments)
        finally:
            path.write_text(whole)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        if code not in {
            0,
            1,
            2,
            5,
        }:  # 5: no test is selected; 2: the module cannot even be imported
            message = f"{mutant.id}: pytest ended with {code}\n{printed}"
            raise RuntimeError(message)
        return code in {1, 2}, printed

    def pytest(self, *arguments: str) -> tuple[int, str]:
        """Run tests in the copy; the exit code (1 after too long a time) and what was printed."""
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no"]
        environment = os.environ | {"PYTHONPATH": str(self.root), "PYTEST_ADDOPTS": ""}
        try:
            done = subprocess.run(
                [*command, "--timeout", "60", *arguments],
                cwd=self.root,
                env=environment,
                capture_output=True,
                text=True,
                timeout=LONGEST,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            return 1, f"no end within {LONGEST} s"
        return done.returncode, done.stdout + done.stderr


def in_copies(
    rows: Sequence[Mutant], act: Callable[[Copy, Mutant], None], root: Path = ROOT
) -> None:
    """Let two workers, each with a copy of the tree, act on the rows; the first error of a worker is raised at the end."""
    waiting: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
    for row in rows:
        waiting.put(row)
    errors: list[BaseException] = []

    def work() -> None:
        copy = Copy(root)
        try:
            while not errors:
                act(copy, waiting.get_nowait())
        except queue.Empty:
            pass
        except BaseException as error:  # noqa: BLE001 -- raised below
            errors.append(error)
        finally:
            copy.close()

    threads = [threading.Thread(target=work) for _ in range(min(WORKERS, len(rows)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def survivors(rows: Sequence[Mutant], root: Path = ROOT) -> list[Mutant]:
    """Those rows whose test passes with the fault; RuntimeError if a test fails without one."""
    copy, tests = Copy(root), sorted({row.test for row in rows})
    try:
        code, printed = copy.pytest(
            "-n", str(WORKERS if len(tests) > WORKERS else 0), *ANY_MARK, *tests
        )
    finally:
        copy.close()
    if code:
        message = f"every test passes without a fault expected, got\n{printed}"
        raise RuntimeError(message)
    found: list[Mutant] = []

    def act(copy: Copy, row: Mutant) -> None:
        is_caught, _ = copy.fails(row, *ANY_MARK, row.test)
        if not is_caught:
            found.append(row)
        sys.stdout.write(f"{'caught  ' if is_caught else 'SURVIVES'} {row.id}  {row.rule}\n")
        sys.stdout.flush()

    in_copies(rows, act, root)
    return found


def run(rows: Sequence[Mutant]) -> int:
    """Run the rows and print the totals; 1 if fewer than nine of ten are caught."""
    alive = survivors(rows)
    for prefix, how in (("D", "drawn"), ("C", "chosen")):
        of_kind = [row for row in rows if row.id.startswith(prefix)]
        if of_kind:
            caught = len(of_kind) - sum(row in alive for row in of_kind)
            sys.stdout.write(f"{how}: {caught} of {len(of_kind)} caught\n")
    caught = len(rows) - len(alive)
    sys.stdout.write(f"{caught} of {len(rows)} caught\n")
    return int(caught < LEAST * len(rows))


def tests_of(module: str) -> list[str]:
    """The tests of a module's room; the module is given by its path from the root."""
    room = module.split("/")[1].removesuffix(".py")
    return [f"tests/{room}"] if (ROOT / "tests" / room).is_dir() else ["tests"]


def find(rows: Sequence[Mutant], tests: Sequence[str] = ()) -> None:
    """Print for each row the first test that fails with the fault, of these or of its room; for one that no test sees, that it survives."""

    def act(copy: Copy, row: Mutant) -> None:
        is_caught, printed = copy.fails(row, *(tests or tests_of(row.file)))
        failed = re.findall(r"^(?:FAILED|ERROR) (\S+(?:\[.*?\])?)(?= - |$)", printed, re.MULTILINE)
        sys.stdout.write(
            f"{row.id} {row.file}: {(failed or printed[-300:]) if is_caught else 'SURVIVES'}\n"
        )
        sys.stdout.flush()

    in_copies(rows, act)


# ---- drawing -----------------------------------------------------------------------------------------------------------
SWAPPED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip


def _faults(tree: ast.Module, lines: list[str]) -> Iterator[tuple[int, int, int, str]]:
    """Every small fault of a module: the line, the columns that are replaced, and by what."""
    for node in _judged(tree):
        if isinstance(node, ast.expr | ast.stmt) and node.lineno != node.end_lineno:
            continue
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            first: Any = next(ast.iter_child_nodes(node))
            yield (
                node.lineno,
                first.end_col_offset,
                node.comparators[0].col_offset,
                f" {SWAPPED[type(node.ops[0])]} ",
            )
        elif isinstance(node, ast.BoolOp):
            word = " or " if isinstance(node.op, ast.And) else " and "
            yield node.lineno, node.values[0].end_col_offset or 0, node.values[1].col_offset, word
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield node.lineno, node.col_offset, node.operand.col_offset, ""
        elif isinstance(node, ast.Return) and node.value is not None and not _is_plain(node.value):
            yield node.lineno, node.value.col_offset, node.value.end_col_offset or 0, "None"
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
            wrong = not node.value if isinstance(node.value, bool) else node.value + 1
            yield node.lineno, node.col_offset, node.end_col_offset or 0, repr(wrong)


def _is_plain(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and (
        value.value is None or isinstance(value.value, bool)
    )


def _judged(node: ast.AST) -> Iterator[ast.AST]:
    """What runs below a node and decides something: no annotations, decorators, overloads, `if TYPE_CHECKING` or `__repr__`."""
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or (
                isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            ):
                continue
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and (
                child.name in {"__repr__", "__str__", "summary"}
                or any("overload" in ast.unparse(each) for each in child.decorator_list)
            ):
                continue
            yield child
            yield from _judged(child)


def draw(count: int, seed: int = SEED) -> Iterator[Mutant]:
    """Faults drawn by a seed: first the module, each as likely as any other, and then one of its faults."""
    rng = random.Random(seed)
    modules = [
        path
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.name not in {"__init__.py", "__main__.py"}
    ]
    for number, path in enumerate(rng.sample(modules, count), 1):
        text = path.read_text()
        lines = text.splitlines()
        if faults := sorted(set(_faults(ast.parse(text), lines))):
            line, begin, end, word = rng.choice(faults)
            whole = lines[line - 1].encode()
            broken = (whole[:begin] + word.encode() + whole[end:]).decode()
            search, replace = lines[line - 1].strip(), broken.strip()
            first = line - 1
            if text.count(search) != 1:  # with the lines before it, as far as one has to go back
                search, replace = lines[line - 1], broken
                while text.count(search) != 1 and first:
                    first -= 1
                    search, replace = f"{lines[first]}\n{search}", f"{lines[first]}\n{replace}"
            file = str(path.relative_to(ROOT))
            yield Mutant(
                f"D{number:02}",
                "",
                file.split("/")[1].removesuffix(".py"),
                file,
                search,
                replace,
                "",
            )


def as_toml(mutant: Mutant) -> str:
    """One row as it stands in the file."""
    rows = [f"{name} = {_quoted(getattr(mutant, name))}" for name in Mutant.__dataclass_fields__]
    return "\n".join(["[[mutant]]", *rows, ""])


def _quoted(text: str) -> str:
    if "\n" in text or ("'" in text and '"' in text):
        return f"'''\n{text}'''"
    return f"'{text}'" if '"' in text or "\\" in text else f'"{text}"'


def main(words: list[str]) -> int:
    """One of the three commands of this file's docstring."""
    match words:
        case ["run", *ids]:
            return run([row for row in mutants() if not ids or row.id in ids])
        case ["draw", count, *seed]:
            sys.stdout.writelines(f"{as_toml(row)}\n" for row in draw(int(count), *map(int, seed)))
            return 0
        case ["find", file, *others]:
            ids = [word for word in others if not word.startswith("tests/")]
            tests = [word for word in others if word not in ids]
            find([row for row in mutants(Path(file)) if not ids or row.id in ids], tests)
            return 0
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
