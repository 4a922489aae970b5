"""Everything in docs/ that the package prints: `python -m tests.pages` renews all of it, `--check` says what is not renewed.

Rule: one row of `PAGES` for each file, with a function from its text as it stands to its text as the package prints it now. Most
functions ignore the text and print the whole page; the others renew a part: the defaults in a table, the classes of a library, what a command prints.
tests/test_pages.py checks all of them. Words on the command line choose the files with one of them in their path.
What has the numbers of one run is made anew only when it is asked for: `python -m tests.pages --run Dialects` makes the run, which
takes minutes, and writes its rows into their table; `RUNS` has all names. The date below a table is changed by hand.
`python -m tests.pages --golden` writes the golden files of settings and of `classify` anew, and says how many lines came and went: of a
new strategy, setting or code few may go, and what comes has to be its own.
"""

from __future__ import annotations

import logging
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any, Final

import attrs

import resilient_bridge as rb
from resilient_bridge import cli
from tests.internals.calls import recommended
from tests.internals.values import shown
from tests.strategies import LAYERS, needed, page_of
from website import outage, pictures

from . import reference, reference_failures, reference_names, reference_presets, requirements


ROOT: Final = Path(__file__).parents[1]
STRATEGIES: Final[Mapping[str, Callable[..., Any]]] = {
    **{page_of(kind): partial(kind, *needed(kind)) for kind in LAYERS},
    "retry-budget": rb.RetryBudget,
}
"""What a page of docs/strategies is about, made with nothing but what has no default."""
_NUMBERS: Final = "no one two three four five six seven eight nine ten".split()
CALLS_OF_THE_DEFAULT: Final = [
    r"Retry\(\)` makes (\w+)",
    r"`rb\.resilient` is used: (\w+) attempts",
    r"with (\w+) attempts each",
    r"wait for its (\w+) attempts",
    r"calls of (\w+) attempts each",
    r"(\w+) attempts per call mean",
    r"attempts per call mean (\w+) times the load",
    r"is then made (\w+) times",
    r"By default a tool is called up to (\w+) times",
    r"Ready to decorate with: (\w+) calls at most",
]
"""Where a sentence has the number of calls that a Retry makes by default."""
COUNTING: Final = [
    path.relative_to(ROOT).as_posix()
    for path in [*sorted((ROOT / "docs").rglob("*.md")), Path(recommended.__file__)]
    if re.search("|".join(CALLS_OF_THE_DEFAULT), path.read_text("utf-8"))
]
"""The files with such a sentence."""
_COMMAND: Final = re.compile(
    r"(^```bash\nresilient-bridge (?P<call>.*?)\n```\n\n```text\n).*?(?=\n```$)",
    re.MULTILINE | re.DOTALL,
)


def defaults(text: str, of: Callable[..., Any]) -> str:
    """Renew the second cell of each row that names a field: the default, as code.

    A cell stays while its code makes an equal value, so that it may say the same more shortly.
    """
    value, names = of(), {name: getattr(rb, name) for name in rb.__all__}

    def renewed(row: re.Match[str]) -> str:
        name, cell = row["name"], row["default"]
        field = attrs.fields_dict(type(value)).get(name)
        if field is None or field.default is attrs.NOTHING:
            return row[0]
        if of(**{name: eval(cell.strip("`"), names)}) == value:
            return row[0]
        return row[0].replace(cell, f"`{shown(field.default)}`", 1)

    head, title, rest = text.partition("\n## Defaults\n")
    part, next_title, end = rest.partition("\n## ")
    row = r"^\| `(?P<name>\w+)` \| (?P<default>`[^|]*`) \|(?=[^|]*\|$)"
    return head + title + re.sub(row, renewed, part, flags=re.MULTILINE) + next_title + end


def counted(text: str) -> str:
    """Renew the number of calls of a default Retry in each sentence that has it: a digit stays one, a word too."""

    def renewed(found: re.Match[str]) -> str:
        attempts, old = rb.Retry().attempts, found[1]
        now = str(attempts) if old.isdigit() else _NUMBERS[attempts]
        now = now.capitalize() if old[0].isupper() else now
        start, end = (at - found.start() for at in found.span(1))
        return found[0][:start] + now + found[0][end:]

    for sentence in CALLS_OF_THE_DEFAULT:
        text = re.sub(sentence, renewed, text)
    return text


def commands(text: str) -> str:
    """Renew what a command of the page prints."""

    def renewed(found: re.Match[str]) -> str:
        printed = StringIO()
        with redirect_stdout(printed):
            assert cli.main(shlex.split(found["call"].replace("\\\n", " "))) == 0
        return found[1] + printed.getvalue().rstrip("\n")

    return _COMMAND.sub(renewed, text)


def mistakes(text: str) -> str:
    """Renew what `check` says of a file with two mistakes."""
    printed = StringIO()
    with tempfile.TemporaryDirectory() as folder, redirect_stderr(printed):
        file = Path(folder, "resilience.toml")
        file.write_text('\n\n[reconnect]\ngrace = "soon"\non_exhausted = "suspent"\n')
        assert cli.main(["check", str(file)]) == 1
    head = "```text\nConfiguration errors:\n"
    before, _, after = text.partition(head)
    return f"{before}```text\n{printed.getvalue()}```{after.partition('```')[2]}"


def _whole(page: Callable[[], str]) -> Callable[[str], str]:
    return lambda _: page()


_PRINTED: Final[Mapping[str, Callable[[str], str]]] = {
    **{f"docs/reference/{name}.md": _whole(page) for name, page in reference.PAGES.items()},
    "docs/reference/severity.md": reference_failures.severities,
    "docs/reference/understood.md": reference_failures.understood,
    "docs/reference/promises.md": _whole(requirements.page),
    **{
        f"docs/presets/{name}.md": _whole(partial(reference_presets.preset_page, name))
        for name in reference_presets.ABOUT
    },
    **{f"docs/strategies/{name}.md": partial(defaults, of=of) for name, of in STRATEGIES.items()},
    "docs/strategies/index.md": reference_names.strategies,
    "docs/reference/api.md": reference_names.api,
    "tests/public_names.txt": reference_names.golden,
    "docs/how-to/look-at-a-schedule.md": commands,
    "docs/how-to/explain-an-error.md": commands,
    "docs/how-to/configure-from-a-file.md": mistakes,
    "docs/images/outage.svg": _whole(lambda: outage.picture(outage.run_of())),
}


def _also_counted(name: str) -> Callable[[str], str]:
    page = _PRINTED.get(name, str)
    return (lambda text: counted(page(text))) if name in COUNTING else page


PAGES: Final[Mapping[str, Callable[[str], str]]] = {
    name: _also_counted(name) for name in dict.fromkeys([*_PRINTED, *COUNTING])
}
EVIDENCE: Final = ROOT / "docs/reference/evidence.md"
_OF_EVIDENCE: Final[Mapping[str, str]] = {
    "Evidence: measured under injected faults": "tests.campaigns",
    "Dialects": "tests.bridges.dialects",
    "The MCP sidecar": "tests.adapters.sidecar.struck",
    "Behind proxies": "tests.campaigns.away",
    "Sends in doubt": "tests.bridges.kills",
}
"""The headings of evidence.md with a table of one run, and the module that prints its rows."""


def with_rows(text: str, heading: str, output: str) -> str:
    """Return the page with these rows in the first table below a heading."""
    rows = [line for line in output.splitlines() if line.startswith("| ")]
    if "|---" in output:  # behind a head of its own
        rows = rows[1:]
    start = re.search(rf"^##? {re.escape(heading)}\n", text, re.MULTILINE)
    assert start is not None, heading
    assert rows, output
    table = re.compile(r"(^\|(?:---\|)+\n)(?:\|.*\n)+", re.MULTILINE)
    part = table.sub(lambda found: found[1] + "\n".join(rows) + "\n", text[start.end() :], count=1)
    return text[: start.end()] + part


def _run(heading: str, module: str) -> None:
    command = [sys.executable, "-m", module]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    EVIDENCE.write_text(with_rows(EVIDENCE.read_text("utf-8"), heading, done.stdout), "utf-8")


def _compare() -> None:
    subprocess.run([sys.executable, "bench/comparison.py", "--page"], cwd=ROOT, check=True)


RUNS: Final[Mapping[str, Callable[[], None]]] = {
    "demo": pictures.main,
    "comparison": _compare,
    **{heading: partial(_run, heading, module) for heading, module in _OF_EVIDENCE.items()},
}
"""What has the numbers of one run, and the function that makes the run and writes them."""

_GOLDEN: Final[Mapping[str, str]] = {
    "tests/settings/data/documents.txt": "tests.settings.golden",
    "tests/settings/data/schema.txt": "",
    "tests/settings/data/shown.txt": "",
    "tests/settings/refusals.txt": "tests.settings.refusals",
    "tests/failure/golden.json": "tests.failure.golden",
}
"""The golden files that a new strategy, setting or code adds to, and the module that writes them; empty: that of the one above."""


def write_golden() -> None:
    """Write the golden files anew, each by its module in a process of its own, where no test has registered anything."""
    before = {name: (ROOT / name).read_text("utf-8").splitlines() for name in _GOLDEN}
    for module in filter(None, _GOLDEN.values()):
        command = [sys.executable, "-m", module]
        done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
        if module == "tests.settings.refusals":
            (ROOT / "tests/settings/refusals.txt").write_text(done.stdout, "utf-8")
    for name, old in before.items():
        now = (ROOT / name).read_text("utf-8").splitlines()
        if now != old:
            came, went = len(set(now) - set(old)), len(set(old) - set(now))
            sys.stdout.write(f"{name}: {came} lines new, {went} gone\n")


def printed(name: str) -> tuple[str, str]:
    """Return the text of a file as it stands, and as the package prints it now."""
    path = ROOT / name
    before = path.read_text("utf-8") if path.exists() else ""
    return before, PAGES[name](before)


def main(*words: str) -> int:
    """Renew the files and print their names, or with `--check` print those to renew; then 1 if there are some."""
    is_check, wanted = "--check" in words, [word for word in words if word[:2] != "--"]
    if "--run" in words:
        for word in wanted:
            RUNS[word]()
        return 0
    if "--golden" in words:
        write_golden()
        return 0
    old = 0
    for name in PAGES:
        if wanted and not any(word in name for word in wanted):
            continue
        before, now = printed(name)
        if before != now:
            old += 1
            sys.stdout.write(f"{name}\n")
            if not is_check:
                (ROOT / name).write_text(now, "utf-8")
    return 1 if is_check and old else 0


if __name__ == "__main__":
    logging.disable()  # of the runs that are drawn
    sys.exit(main(*sys.argv[1:]))
