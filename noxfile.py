"""Every check by name, in the environment nox itself runs in: `pip install -e '.[dev]'` first. Rule: CI calls these sessions, not copies of them.

Longer campaigns are sessions of their own, which CI does not wait for: `campaigns` (all of what the suite samples), `servers` (the same
against real servers), `damage` (every case of what the others sample), `coverage` and `mutation`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from shutil import move, rmtree, which
from tempfile import TemporaryDirectory

import nox


nox.options.default_venv_backend = "none"
nox.options.sessions = ["style", "types", "layers", "tests"]


PYTEST = ("python", "-m", "pytest", "-q")
SPREAD = (*PYTEST, "-n", str((os.cpu_count() or 1) * 3 // 2), "--dist", "worksteal")
NOT_LONG = "not simulation and not crash and not campaign and not server"


def _files_with(*texts: str) -> list[str]:
    """The tests to collect: all of them take each worker longer than some of the sessions."""
    files = sorted(Path("tests").rglob("test_*.py"))
    return [str(path) for path in files if any(text in path.read_text() for text in texts)]


@nox.session
def style(session: nox.Session) -> None:
    """Formatting and lint, by the pinned ruff; and the words that are to go."""
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("python", "-m", "tests.words")


@nox.session
def types(session: nox.Session) -> None:
    """Mypy and pyright, both strict, on the package and on the files that use it as a user would, rightly and wrongly; mypy on pages, and on the package for each system."""
    uses = [str(path) for path in sorted(Path("tests/typing").glob("*.py"))]
    session.run("mypy", "resilient_bridge", "website", *uses)
    for system in {"linux", "darwin", "win32"} - {sys.platform}:
        session.run(
            "mypy", "--platform", system, "--cache-dir", f".mypy_cache/{system}", "resilient_bridge"
        )
    session.run("pyright", "resilient_bridge", *uses)
    with TemporaryDirectory() as pages:
        session.run("python", "-m", "tests.typed_pages", pages)
        session.run(
            "mypy", "--config-file=", "--check-untyped-defs", "--ignore-missing-imports", pages
        )


@nox.session
def layers(session: nox.Session) -> None:
    """The floors, the purity rule, no cycles, and a witness that shares no code with the accused."""
    session.run("lint-imports")


@nox.session
def tests(session: nox.Session) -> None:
    """All that runs in virtual time or none: the loop to work in."""
    session.run(*PYTEST, "-m", f"not real and not sample and {NOT_LONG}", *session.posargs)


@nox.session
def real(session: nox.Session) -> None:
    """What needs real sockets, processes or seconds."""
    session.run(
        *PYTEST, "-m", "real and not crash and not campaign and not sample", *session.posargs
    )


REAL_SAMPLE = [  # real sockets, processes and seconds: what an event loop does differently shows here
    *(
        "tests/transports",
        "tests/adapters/processes",
        "tests/journeys",
        "tests/testing",
        "tests/adapters/test_link_websockets.py",
    ),
    *(
        "tests/adapters/test_http_transport.py",
        "tests/adapters/test_http_losses.py",
        "tests/adapters/test_http_bodies.py",
        "tests/adapters/test_event_source.py",
        "tests/agent/test_commands.py",
        "tests/agent/test_daemon.py",
        "tests/stores/test_store_port_client.py",
        "tests/cli/test_pipe.py",
    ),
]


@nox.session
def loops(session: nox.Session) -> None:
    """The tests marked real on uvloop, and with eager tasks where a Python of 3.12 or later is found."""
    quick = (
        "-m",
        "pytest",
        "-q",
        "-n",
        "2",
        "--dist",
        "loadfile",
        "-m",
        f"real and {NOT_LONG}",
    )
    files = session.posargs or [path for path in REAL_SAMPLE if Path(path).exists()]
    python = _environment(session, sys.executable, "uvloop")
    # uvloop does not notice that a child closes its own pipes and goes on, or only when it ends; its FileNotFoundError names no file.
    session.run(
        python,
        *quick,
        "-k",
        "not shut and not own_words and not nothing_is_handed",
        *files,
        env={"RESILIENT_BRIDGE_LOOP": "uvloop"},
        external=True,
    )
    # trio and hypothesis in one process warn of each other; these tests run trio in a process of its own.
    python = _environment(session, sys.executable, "trio")
    trio = ("-p", "no:hypothesispytest", "-m", "campaign", "tests/platforms/test_loops.py")
    session.run(python, "-m", "pytest", "-q", "-n", "0", *trio, external=True)
    for interpreter in _interpreters(least=(3, 12)):
        python = _environment(session, interpreter)
        session.run(python, *quick, *files, env={"RESILIENT_BRIDGE_LOOP": "eager"}, external=True)


PYTHONS_SAMPLE = [
    *(
        "tests/calls",
        "tests/values",
        "tests/failure",
        "tests/protocol",
        "tests/transports",
        "tests/adapters/processes",
    ),
    *(
        "tests/config",
        "tests/settings",
        "tests/presets",
        "tests/world",
        "tests/telemetry",
        "tests/testing",
        "tests/cli",
    ),
    *(
        "tests/stores/test_store_port.py",
        "tests/stores/test_sqlite_store.py",
        "tests/stores/test_state_file.py",
    ),
    *(
        "tests/adapters/test_http_transport.py",
        "tests/adapters/test_link_websockets.py",
        "tests/adapters/test_wrap_openai.py",
    ),
]


@nox.session
def pythons(session: nox.Session) -> None:
    """A sample of the tests on each later Python that is found: an environment each, kept between runs."""
    found = _interpreters(least=(3, 12))
    if not found:
        session.skip("no Python 3.12 or later: looked in PATH and in ~/.pyenv/versions")
    for interpreter in found:
        python = _environment(session, interpreter)
        session.run(
            *(python, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "-m", NOT_LONG),
            *(session.posargs or PYTHONS_SAMPLE),
            external=True,
        )


@nox.session
def python314(session: nox.Session) -> None:
    """CPython 3.14 as pyodide has it, in node: every public name loads, with deprecations as errors, and a few calls are made. No sockets, threads or processes."""
    folder = Path(".nox/python314")
    folder.mkdir(parents=True, exist_ok=True)
    session.run(
        "npm",
        "install",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--prefix",
        str(folder),
        "pyodide@314.0.7",
        external=True,
    )
    pure = ("attrs", "httpx", "tenacity", "websockets", "wrapt")
    target = ("--target", str(folder / "packages"))
    session.run(
        "uv", "pip", "install", "-q", "--python", sys.executable, *target, *pure, external=True
    )
    session.run("node", "tests/platforms/pyodide_314.mjs", str(folder), external=True)


WINDOWS_SAMPLE = [
    *(
        "tests/values",
        "tests/failure",
        "tests/protocol",
        "tests/calls",
        "tests/world",
    ),
    *(
        "tests/platforms/test_windows_stand_in.py",
        "tests/journeys",
        "tests/adapters/processes/test_lines.py",
    ),
    *(
        f"tests/transports/test_{name}.py"
        for name in ("loopback", "origin", "racing", "tls", "websocket")
    ),
    *(
        f"tests/stores/test_{name}.py"
        for name in ("file_changes", "session_log", "sqlite_mending", "sqlite_store")
    ),
    *(
        f"tests/stores/test_{name}.py"
        for name in ("state_file", "state_recovery", "store_port_client")
    ),
    *(
        f"tests/agent/test_{name}.py"
        for name in ("asynchronous_commands", "commands_table", "health_probe", "toolbox")
    ),
    *(
        f"tests/cli/test_{name}.py"
        for name in ("backoff", "check", "demo", "doctor_mcp", "main", "pipe", "serve")
    ),
]


@nox.session
def windows(session: nox.Session) -> None:
    """A sample of the tests on CPython for Windows, under Wine, which is not Windows: built outside of the repository, 1.2 GB. CI does not wait for it."""
    # Folders of earlier runs may be in use by what those have started; Wine then refuses to remove them.
    plugin = (
        "-p",
        "no:cacheprovider",
        "-p",
        "tests.platforms.windows_skips",
        "-W",
        "ignore::pytest.PytestWarning",
    )
    session.run(
        *(
            "python",
            "-m",
            "tests.platforms.windows_python",
            "-m",
            "pytest",
            "-q",
            "-n",
            "0",
            "--timeout",
            "90",
        ),
        *(*plugin, "-m", NOT_LONG),
        *(session.posargs or WINDOWS_SAMPLE),
    )


def _interpreters(least: tuple[int, int]) -> list[str]:
    """The newest Python of each later minor version, in PATH or of pyenv."""
    places = [
        *os.environ["PATH"].split(os.pathsep),
        *map(str, Path.home().glob(".pyenv/versions/*/bin")),
    ]
    found: dict[tuple[int, ...], str] = {}
    for minor in range(least[1], 20):
        for position in places:
            path = Path(position, f"python3.{minor}")
            if path.is_file() and "shims" not in path.parts:
                found.setdefault((3, minor), str(path))
    return [path for _, path in sorted(found.items())]


def _environment(session: nox.Session, interpreter: str, *packages: str) -> str:
    """An environment of its own with what tests need, and these packages; returns its Python."""
    version = subprocess.check_output(  # noqa: S603 -- an interpreter that was found
        [interpreter, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], text=True
    ).strip()
    folder = Path(".nox", "-".join((f"python{version}", *packages)))
    python = str(folder / "bin" / "python")
    if not Path(python).exists():
        session.run("uv", "venv", "-q", "--python", interpreter, str(folder))
    session.run("uv", "pip", "install", "-q", "--python", python, "-e", ".[test]", *packages)
    return str(Path(python).absolute())


@nox.session
def simulation(session: nox.Session) -> None:
    """The campaign of seeded fault schedules and samples of the other campaigns, on every core; a failing seed prints the command that replays it."""
    # Runs are told apart by their seed alone, so it does not matter who makes them.
    files = _files_with("mark.simulation", "mark.sample")
    session.run(
        *SPREAD, "-m", "(simulation or sample) and not campaign", *(session.posargs or files)
    )


@nox.session
def crashes(session: nox.Session) -> None:
    """Kills, damaged files, full disks and servers that die, on every core: each test has processes and files of its own."""
    session.run(*SPREAD, "-m", "crash", *(session.posargs or _files_with("mark.crash")))


@nox.session
def campaigns(session: nox.Session) -> None:
    """Thousands of faulted calls of each kind, on every core, with their effects counted at the far end; `simulation` makes a sample of them."""
    session.run(*SPREAD, "-m", "campaign", *(session.posargs or _files_with("mark.campaign")))


@nox.session
def servers(session: nox.Session) -> None:
    """Servers that are not ours, installed and run: what they say, and fifty runs of the client against each, with cuts, kills and restarts.

    Three quarters of an hour. OpenHands is left out where no Python 3.12 or 3.13 is found.
    """
    installed = session.run(
        "python", "-m", "tests.bridges.servers.install", "possible", silent=True
    )
    session.log(installed)
    absent = re.findall(r"^(\w+): left out", installed, re.MULTILINE)
    session.run(
        *("python", "-m", "pytest", "-q", "-n", "0", "-m", "not crash", "tests/bridges/servers"),
        *(["-k", " and ".join(f"not {name}" for name in absent)] if absent else []),
        *session.posargs,
        env={"RESILIENT_BRIDGE_REQUIRE_SERVERS": "1"},
    )


@nox.session
def small_servers(session: nox.Session) -> None:
    """What CI runs of `servers`: those that are small and start fast, and a sample of the runs."""
    session.run(
        *(
            "python",
            "-m",
            "tests.bridges.servers.install",
            "agno",
            "jupyter",
            "nostr",
            "python_socketio",
        )
    )
    session.run(
        *(
            "python",
            "-m",
            "pytest",
            "-q",
            "-n",
            "2",
            "--dist",
            "loadfile",
            "-m",
            "server and not campaign",
        ),
        *("-k", "not openhands and not langgraph and not a2a and not mcp_events"),
        *("tests/bridges/servers", *session.posargs),
        env={"RESILIENT_BRIDGE_REQUIRE_SERVERS": "1"},
    )


SITE = (
    "black",  # lays signatures out
    "mkdocstrings>=1.0",
    "mkdocstrings-python>=2.0",
    "zensical>=0.0.73,<1",  # a newer one is taken where it can be installed
)
MERMAID = "mermaid@12"  # draws the diagrams; without it each page would ask another site for it


@nox.session(venv_backend="uv|virtualenv")
def site(session: nox.Session) -> None:
    """The documentation as a site, in site/: a warning is an error, every link is followed, and the search is asked. Needs nothing but nox."""
    session.install("-q", *SITE)
    with TemporaryDirectory() as pages:
        if which("npm"):
            with session.chdir(pages):
                packed = session.run(
                    "npm", "pack", "--silent", MERMAID, silent=True, external=True
                ).strip()
                session.run("tar", "xzf", packed, "package/dist/mermaid.min.js", external=True)
        session.run("python", "-m", "website", pages)
        with session.chdir(pages):
            session.run("zensical", "build", "--strict")
        session.run("python", "-m", "website", "finish", pages)
        rmtree("site", ignore_errors=True)
        move(f"{pages}/site", "site")


@nox.session
def site_pictures(session: nox.Session) -> None:
    """The site that `site` has built, as Chromium draws it: pages that fit their window, light and dark."""
    session.run(*PYTEST, "-n", "0", "-m", "campaign", "tests/test_site_pictures.py")


@nox.session(venv_backend="uv")
def package(session: nox.Session) -> None:
    """What a release consists of, in dist/: both distributions, checked, the wheel installed and run, an SBOM, the notes."""
    rmtree("dist", ignore_errors=True)
    session.install("-q", "build", "cyclonedx-bom", "twine")
    session.run("python", "-m", "build", "--quiet")
    built = [str(path) for path in sorted(Path("dist").iterdir())]
    session.run("python", "-m", "twine", "check", "--strict", *built)
    with TemporaryDirectory() as fresh:
        python = f"{fresh}/venv/bin/python"
        session.run("uv", "venv", "-q", f"{fresh}/venv")
        session.run(
            "uv",
            "pip",
            "install",
            "-q",
            "--python",
            python,
            *(path for path in built if path.endswith(".whl")),
        )
        with session.chdir(fresh):  # so that nothing is imported from here
            session.run(
                f"{fresh}/venv/bin/resilient-bridge", "demo", "--duration", "2", external=True
            )
        session.run(
            "cyclonedx-py",
            "environment",
            "--output-reproducible",
            "-o",
            "dist/sbom.cdx.json",
            python,
        )
    Path("dist/release-notes.md").write_text(
        session.run("python", "-m", "website.release_notes", silent=True)
    )


FRAMEWORKS = ("langgraph", "openai-agents", "pydantic-ai-slim", "fastmcp")


@nox.session(venv_backend="uv")
def frameworks(session: nox.Session) -> None:
    """The examples under agent frameworks, installed and run: they print what their docstrings say. CI does not wait for it."""
    tools = ("pytest>=9", "pytest-timeout", "pytest-xdist", "anyio", "sybil", "certifi")
    session.install("-q", "-e", ".", *FRAMEWORKS, *tools)
    session.run("python", "-m", "pytest", "-q", "-n", "0", "tests/frameworks.py")
    installed = session.run(
        "uv", "pip", "list", "-q", "--python", f"{session.bin}/python", silent=True
    )
    session.log(", ".join(line for line in installed.splitlines() if line.split()[0] in FRAMEWORKS))


@nox.session
def mcp(session: nox.Session) -> None:
    """The MCP sidecar before servers and clients that others wrote: thousands of calls under kills, 100,000 in a row, and 10,000 with 200 restarts.

    A quarter of an hour. `python -m tests.adapters.sidecar.struck` prints the table of docs/reference/evidence.md.
    """
    session.run("python", "-m", "tests.adapters.sidecar.servers", "all")
    session.run(
        *("python", "-m", "pytest", "-q", "-n", "2", "--dist", "worksteal", "-m", "server"),
        *("tests/adapters/sidecar", *session.posargs),
        env={"RESILIENT_BRIDGE_REQUIRE_SERVERS": "1"},
    )


@nox.session
def mcp_sample(session: nox.Session) -> None:
    """What CI runs of `mcp`: the ten acceptance scenarios with fewer calls, and the conformance suite; installed outside the repository, 390 MB."""
    session.run("python", "-m", "tests.adapters.sidecar.servers", "all")
    session.run(
        *(
            "python",
            "-m",
            "pytest",
            "-q",
            "-n",
            "4",
            "--dist",
            "worksteal",
            "-m",
            "server and not campaign",
        ),
        *("tests/adapters/sidecar", *session.posargs),
        env={"RESILIENT_BRIDGE_REQUIRE_SERVERS": "1"},
    )


@nox.session
def coverage(session: nox.Session) -> None:
    """Branch coverage of the README's tests: at least 90 %. CI does not wait for it: the tracer makes them take three times as long."""
    data = {
        "COVERAGE_PROCESS_START": str(Path("pyproject.toml").resolve()),
        "COVERAGE_FILE": str(Path(".coverage").resolve()),
    }
    session.run("coverage", "erase")
    session.run("python", "-m", "pytest", "-q", *session.posargs, env=data)
    session.run("coverage", "combine", "-q")
    session.run("coverage", "report")


@nox.session
def benchmarks(session: nox.Session) -> None:
    """Each script of bench/ once, with one small round: it starts and ends, whatever it measures."""
    session.run("python", "bench/_small.py", *session.posargs)


@nox.session
def damage(session: nox.Session) -> None:
    """All of what other sessions take a sample of: 2,000 schedules, every 16th byte of a database and its log, every length, every call that fails, every point of a workflow,
    every way to die on every bridge.

    More than half an hour on two cores.
    """
    files = _files_with("from tests.samples import")
    session.run(
        *("python", "-m", "pytest", "-q", "-n", "logical", "-m", "not campaign"),
        *(session.posargs or files),
        env={"RB_DAMAGE": "all"},
    )


@nox.session
def mutation(session: nox.Session) -> None:
    """The strength of the tests: at least 90 of the hundred faults of tests/mutants.toml make the test fail that each names. With ids: those alone."""
    session.run("python", "-m", "tests.mutants", "run", *session.posargs)


@nox.session(venv_backend="uv")
def litellm(session: nox.Session) -> None:
    """litellm, its errors and its use of a wrapped client: it pins openai<3 and cannot share an environment with the openai of today."""
    session.install(
        "-q",
        "-e",
        ".",
        "litellm",
        "google-genai>=3",
        "httpx2",
        "pytest",
        "pytest-timeout",
        "pytest-xdist",
        "anyio",
        "trustme",
        "sybil",
    )
    # Two runs: importing litellm makes an event loop that nobody closes.
    session.run("python", "-m", "pytest", "-q", "tests/failure/test_litellm.py")
    session.run("python", "-m", "pytest", "-q", "tests/adapters/test_wrap_openai2.py")
    session.run("python", "-m", "pytest", "-q", "tests/adapters/test_wrap_aiohttp.py")
    session.run(
        *("python", "-m", "pytest", "-q", "tests/adapters/test_litellm_over_wrapped.py"),
        env={"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    )


LOWEST = [  # what a release of a library that we stand on could break; not the whole suite, which would take minutes
    *(
        "tests/values",
        "tests/calls",
        "tests/failure",
        "tests/transports",
        "tests/bridges",
        "tests/adapters",
    ),
    *("tests/stores", "tests/testing", "tests/telemetry", "tests/exporters"),
]
LOWEST_REAL = [
    *(
        "tests/transports",
        "tests/adapters/processes",
        "tests/adapters/test_link_credentials.py",
        "tests/adapters/test_link_websockets.py",
    ),
    *(
        "tests/adapters/test_http_transport.py",
        "tests/adapters/test_http_losses.py",
        "tests/adapters/test_wrap_any.py",
    ),
    *(
        "tests/stores/test_store_port.py",
        "tests/stores/test_redis_state.py",
        "tests/calls/test_shared_limits_real.py",
        "tests/stores/test_redis_limit_scripts.py",
        "tests/testing/test_server.py",
    ),
]


LOWEST_SAMPLE = [  # what each of them is used for, in seconds: for CI
    "tests/calls/test_calls.py",
    "tests/calls/test_conditions.py",
    "tests/calls/test_retrying_schedules.py",
    "tests/transports",
    "tests/adapters/test_http_transport.py",
    "tests/adapters/test_link_websockets.py",
    "tests/adapters/test_wrap_any.py",
    "tests/adapters/test_wrap_openai.py",
    "tests/stores/test_redis_state.py",
    "tests/exporters",
]


@nox.session(venv_backend="uv")
@nox.parametrize("run", ["all", "sample"], ids=["all", "sample"])
def lowest(session: nox.Session, run: str) -> None:
    """The lowest versions that pyproject.toml allows, installed and run: a floor that is too low fails here."""
    python = f"{session.bin}/python"
    # Compiled while they are installed: some have warnings then, which our tests would take for errors.
    session.run(
        *("uv", "pip", "install", "-q", "--compile-bytecode", "--resolution", "lowest-direct"),
        *("--python", python, "-e", ".[test]"),
    )
    session.run("uv", "pip", "list", "-q", "--python", python)
    quick = ["python", "-m", "pytest", "-q", "-n", "logical", "-m"]
    if run == "sample" or session.posargs:
        session.run(*quick, NOT_LONG, *(session.posargs or LOWEST_SAMPLE))
    else:
        session.run(*quick, f"not real and {NOT_LONG}", *LOWEST)
        session.run(*quick, f"real and {NOT_LONG}", *LOWEST_REAL)


NEIGHBOURS = {  # who asks for older releases of what we stand on, and what is imported of it
    "openai[realtime]>=3": "openai",
    "supabase": "supabase",
    "ably>=3": "ably",
    "google-genai<2": "google.genai",
    "litellm[proxy]": "litellm",  # with openai<3, so in an environment of its own
}
TOGETHER = [[name for name in NEIGHBOURS if "litellm" not in name], ["litellm[proxy]"]]


@nox.session(venv_backend="uv")
@nox.parametrize("beside", TOGETHER, ids=["clients", "litellm"])
def neighbours(session: nox.Session, beside: list[str]) -> None:
    """Installed beside the libraries whose clients people wrap: each alone is resolved, all together are installed, and run."""
    python = f"{session.bin}/python"
    for name in beside:
        asked = Path(session.create_tmp()) / "asked.in"
        asked.write_text(f"resilient-bridge @ {Path.cwd().as_uri()}\n{name}\n")
        session.run(
            "uv", "pip", "compile", "-q", "--no-header", "--python", python, str(asked), silent=True
        )
    session.run("uv", "pip", "install", "-q", "--python", python, "-e", ".", *beside)
    session.run(
        *("python", "-m", "tests.neighbours", *(NEIGHBOURS[name] for name in beside)),
        env={"LITELLM_LOCAL_MODEL_COST_MAP": "True"},  # it would ask the net while it is imported
    )
