"""The names and options of all commands. Rule: this module imports nothing that a command runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Final, TypeAlias

from .. import __version__
from .mcp_options import EPILOG, EXAMPLES, add_mcp
from .options import (
    FETCHING,
    PRESETS,
    SECONDS,
    SHELLS,
    Parser,
    fault_plan,
    moment,
    picture_path,
    positive,
    preset_name,
    seconds,
    whole,
)


_SCHEDULES: Final = """SCHEDULE is written as in code, with or without `Backoff.`: "decorrelated(1)",
"exponential(0.5, cap=20, jitter='full')", "steps(1, 2, 5, then=exponential(10, cap=60))"; or it is a name: default, recursor,
openviber, gasoline, ccsetup."""
_FORMS: Final = """WHAT is read by its form: a code (SESS_NOT_FOUND), an errno's name (ECONNREFUSED), a number (429 is a
status, 1008 a close code, 137 an exit code, -32601 a code of JSON-RPC), a JSON object, else an error's text. With an option it is
the text that came with that: a body, a close reason, the end of stderr, a message."""
_EXIT_CODES: Final = """exit codes of pipe: 0 all was confirmed, or nothing was to be sent and the bridge was reached; 1 the bridge failed for good; 2 wrong usage or settings, or a store
or a file of receipts that cannot be used; 3 a message ended without confirmation, or is left in the store; 4 a line was refused; 5 nothing was to be sent, and the bridge was never reached. Of several reasons the smallest counts."""

_DOCTOR: Final = """With --bridge it connects, waits for an event, cuts the connection itself, and looks at what comes after that. It sends what the
dialect itself sends, and nothing else, unless both --probe-type and --probe-runs-twice are given. With --mcp it starts a server of its own
(at a URL: opens sessions of its own), asks for lists, ends it and starts it again; it calls no tool but that of --probe-tool. Exit codes:
0 found out; 1 it could not connect or was refused, or the MCP server did not start, or gave no answer within --seconds; 2 wrong usage, or a
dialect that needs arguments; 3, of an MCP server, problems that the page marks with (!), or it started and was not examined to the end within --seconds."""
_CHECK: Final = """Names of functions are let pass and listed, because only your program has them. Exit codes: 0 all is right; 1 it is not, each
mistake with its path and line; 2 wrong usage, or no such file."""
_DIALECT: Final = (
    "how the bridge speaks, as in rb.dialects: plain, openhands, \"sequence(field='seq', ask='last_seq')\"; "
    "or MODULE:NAME, a Dialect in a module of yours, which is imported from the current directory"
)
_TARGETS: Final = """TARGET is FILE.py or MODULE, with :NAME if more than one Workflow is in it. Exit codes: 0 done; 1 halted, the report says
why and what to do; 2 wrong usage, or a file that cannot be used; 3 aborted; 130 interrupted."""
_LOGS: Final = """Damaged lines are counted and named. Exit codes: 0 done, whatever the log says; 2 wrong usage, or a file that cannot be read or
written."""
_COMPLETION: Final = """bash: eval "$(resilient-bridge completion bash)" in ~/.bashrc; zsh: the same with zsh in ~/.zshrc, after compinit; fish:
resilient-bridge completion fish > ~/.config/fish/completions/resilient-bridge.fish"""
_JOBS: Final = """Resilience for agents and their bridges, on the command line.

put a relay in front of an MCP server, which may then crash or restart; this prints the entry for your client's configuration:
  resilient-bridge mcp --print-config json npx -y @modelcontextprotocol/server-memory

see a client survive a broken line, restarts and lost sessions:
  resilient-bridge demo

explain an error, or look at what a bridge guarantees:
  resilient-bridge classify "connect ECONNREFUSED 127.0.0.1:80"
  resilient-bridge doctor --bridge ws://127.0.0.1:8000/events"""
_ACTIONS: Final = {
    "run": "begin, or go on where an earlier run ended",
    "resume": "go on where it halted, with the phase that failed",
    "skip": "leave a phase out; resume goes on",
    "abort": "end it; the next run begins anew",
    "status": "tell how far it is, also while it runs",
}


def parser() -> Parser:
    """Return the parser of the whole command line.

    In its result, `run` is the command's `module:function` in this package.
    """
    every = Parser(prog="resilient-bridge", description=_JOBS)
    every.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = every.add_subparsers(metavar="COMMAND", required=True)
    for group, members in _COMMANDS.items():
        for name, (add_options, text, examples, epilog) in members.items():
            description = f"{text}\n\n{examples}" if examples else text
            command = commands.add_parser(name, help=text, description=description, epilog=epilog)
            command.set_defaults(run=f"{name}:run")
            add_options(command)
            every.commands[name] = command
        lines = commands._choices_actions[-len(members) :]  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] -- argparse lists all commands in one group
        every.add_argument_group(group)._group_actions.extend(lines)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] -- as above
    commands.help = argparse.SUPPRESS
    every.usage = "%(prog)s [-h] [--version] COMMAND ..."
    return every


def _add_demo(demo: argparse.ArgumentParser) -> None:
    demo.add_argument(
        "--seed",
        type=int,
        default=0,
        help="which faults come when, and the pauses between messages (default: %(default)s)",
    )
    demo.add_argument(
        "--duration",
        type=seconds,
        default=20.0,
        metavar="SECONDS",
        help="how long messages flow (default: %(default)g)",
    )
    demo.add_argument(
        "--rate",
        type=positive,
        default=20.0,
        metavar="N",
        help="messages a second, each way (default: %(default)g)",
    )
    breaks = demo.add_mutually_exclusive_group()
    breaks.add_argument(
        "--faults",
        type=fault_plan,
        metavar="PLAN",
        help="how many faults, in the seed's order, or a comma list of names in yours (default: each kind once): "
        "cut, reset, fin, half-open, restart, restart-lost, expire, truncate, broken-buffer",
    )
    breaks.add_argument(
        "--crash",
        nargs="?",
        const=0,
        type=whole(1, 1_000),
        metavar="N",
        help="instead kill the client's process (kill -9) so many times, each time restarted on one store "
        "(default: as many as fit)",
    )
    breaks.add_argument(
        "--mcp",
        action="store_true",
        help="instead call tools of an MCP server that dies, through the sidecar (10 calls, 10 s)",
    )
    demo.add_argument(
        "--quick",
        dest="duration",
        action="store_const",
        const=8.0,
        help="the same as --duration 8: fewer faults",
    )
    demo.add_argument(
        "--json",
        action="store_true",
        help="progress on stderr; stdout gets one JSON object on one line",
    )


def _add_pipe(pipe: argparse.ArgumentParser) -> None:
    pipe.add_argument("url", metavar="URL", help="ws:// or wss:// address of the bridge")
    pipe.add_argument(
        "--token-env", metavar="NAME", help="the environment variable that holds the token"
    )
    pipe.add_argument("--session", metavar="ID", help="the session to join (default: a new one)")
    pipe.add_argument("--dialect", metavar="DIALECT", help=f"{_DIALECT} (default: the preset's)")
    pipe.add_argument(
        "--preset", type=preset_name, default="default", metavar="NAME", help=", ".join(PRESETS)
    )
    pipe.add_argument(
        "--store",
        metavar="FILE",
        help="keep what is accepted, and the position, in FILE: a run that was killed is continued by the next",
    )
    pipe.add_argument(
        "--receipts",
        metavar="FILE",
        help="with --store: add a line to FILE for each line of input, once it is in the store or refused",
    )
    pipe.add_argument(
        "--events",
        metavar="FILE",
        help="also append every event to FILE, each as one line of JSON, rotated at 10 MiB",
    )
    pipe.add_argument(
        "--pin",
        metavar="PIN",
        action="append",
        help="SHA-256 of the server's certificate, as sha256:HEX; twice for today's and the next one's",
    )
    pipe.add_argument(
        "--drain",
        type=seconds,
        default=30.0,
        metavar="SECONDS",
        help="how long the end of input waits for confirmations (default: %(default)g)",
    )
    pipe.add_argument(
        "--keep-open",
        action="store_true",
        help="after the end of input go on printing what arrives, until Ctrl-C",
    )


def _add_doctor(doctor: argparse.ArgumentParser) -> None:
    doctor.usage = "%(prog)s --bridge URL [OPTIONS]\n       %(prog)s --mcp URL [OPTIONS]\n       %(prog)s --mcp [OPTIONS] COMMAND …"
    which = doctor.add_mutually_exclusive_group(required=True)
    which.add_argument("--bridge", metavar="URL", help="ws:// or wss:// address of the bridge")
    which.add_argument(
        "--mcp",
        nargs="?",
        const="",
        metavar="URL",
        help="an MCP server: its address, or after our options the command that starts it",
    )
    doctor.add_argument(
        "--header",
        action="append",
        default=[],
        metavar='"NAME: VALUE"',
        help="with --mcp URL: a header, env:NAME and file:PATH in it are replaced; may be repeated",
    )
    doctor.add_argument(
        "--probe-tool",
        metavar="TOOL",
        help="with --mcp: call this tool twice, and cancel the first call",
    )
    doctor.add_argument(
        "--probe-arguments", metavar="JSON", help="with --probe-tool: its arguments (default: none)"
    )
    doctor.add_argument(
        "--dialect",
        metavar="DIALECT",
        help=f"{_DIALECT} (default: the one that its first frames fit)",
    )
    doctor.add_argument(
        "--token-env", metavar="NAME", help="the environment variable that holds the token"
    )
    doctor.add_argument(
        "--session",
        metavar="ID",
        help="the session to join (default: a new one); a client that is in it may lose it",
    )
    doctor.add_argument(
        "--seconds",
        type=seconds,
        metavar="N",
        help=f"how long it may take altogether (default: {SECONDS:g}; {FETCHING:g} for npx, uvx and others that fetch a package)",
    )
    doctor.add_argument(
        "--probe-type",
        metavar="TYPE",
        help="with --probe-runs-twice: send one message of TYPE twice, with one id and key, to see whether a repetition is noticed; "
        "the message may have its effect twice",
    )
    doctor.add_argument(
        "--probe-runs-twice",
        action="store_true",
        help="yes, the message of --probe-type may have its effect twice",
    )
    doctor.add_argument("--json", action="store_true", help="one JSON object on one line instead")


def _add_serve(serve: argparse.ArgumentParser) -> None:
    serve.add_argument(
        "--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)"
    )
    serve.add_argument(
        "--port", type=int, default=0, help="the port to listen on (default: a free one)"
    )
    serve.add_argument(
        "--dialect",
        metavar="DIALECT",
        help="speak plain, jsonrpc, or a family of home-made bridges, such as \"sequence(field='seq', ask='last_seq')\" (default: recursor)",
    )
    serve.add_argument(
        "--token-env",
        metavar="NAME",
        help="the environment variable that holds the token clients must bring",
    )


def _add_backoff(backoff: argparse.ArgumentParser) -> None:
    backoff.add_argument("schedule", metavar="SCHEDULE", help="a Backoff as in code, or a name")
    backoff.add_argument(
        "-n",
        type=whole(1, 1_000),
        default=10,
        metavar="N",
        help="how many waits (default: %(default)s)",
    )
    backoff.add_argument(
        "--samples",
        type=whole(0, 100),
        metavar="K",
        help="also K possible runs (default: none, or one with --seed)",
    )
    backoff.add_argument(
        "--seed", type=whole(0, 10**18), metavar="S", help="the seed of the first run (default: 0)"
    )
    shown = backoff.add_mutually_exclusive_group()
    shown.add_argument("--plot", action="store_true", help="also draw it, in plain characters")
    shown.add_argument("--json", action="store_true", help="one JSON object on one line instead")
    backoff.add_argument(
        "--out",
        type=picture_path,
        metavar="FILE",
        help="also write a picture (.svg), or table and picture as text (.txt)",
    )


def _add_classify(classify: argparse.ArgumentParser) -> None:
    classify.add_argument("what", nargs="?", metavar="WHAT", help="an error's text, code or number")
    value = classify.add_mutually_exclusive_group()
    value.add_argument("--status", type=whole(100, 599), metavar="N", help="an HTTP status")
    value.add_argument(
        "--close-code", type=whole(1_000, 4_999), metavar="N", help="a WebSocket close code"
    )
    value.add_argument(
        "--exit-code",
        type=whole(-64, 255),
        metavar="N",
        help="a process's exit code; negative: ended by a signal",
    )
    value.add_argument(
        "--errno", metavar="NAME", help="an errno's name, or its number on this system"
    )
    value.add_argument(
        "--mcp", type=whole(-(2**31), 2**31), metavar="CODE", help="a code of JSON-RPC or MCP"
    )
    classify.add_argument(
        "--retry-after", metavar="V", help="the wait that came with it: seconds or an HTTP date"
    )
    classify.add_argument("--json", action="store_true", help="one JSON object on one line instead")


def _add_check(check: argparse.ArgumentParser) -> None:
    check.add_argument("file", nargs="?", metavar="FILE", help="a .toml, .json or .yaml file")
    check.add_argument(
        "--env", action="store_true", help="lay the variables RESILIENT_BRIDGE_… over it"
    )
    check.add_argument(
        "--explain", action="store_true", help="also print every setting in force, and its source"
    )
    check.add_argument(
        "--schema",
        action="store_true",
        help="print the JSON schema of settings instead, for editors",
    )
    check.add_argument(
        "--providers", action="store_true", help="also connect to each URL of the table `providers`"
    )
    check.add_argument(
        "--timeout",
        type=seconds,
        default=5.0,
        metavar="SECONDS",
        help="how long all providers together have (default: %(default)g)",
    )
    check.add_argument("--json", action="store_true", help="one JSON object on one line instead")


def _add_workflow(workflow: argparse.ArgumentParser) -> None:
    actions = workflow.add_subparsers(
        title="actions", metavar="ACTION", dest="action", required=True
    )
    for name, text in _ACTIONS.items():
        action = actions.add_parser(name, help=text, description=text, epilog=_TARGETS)
        action.add_argument("target", metavar="TARGET", help="where the workflow is defined")
        if name == "skip":
            action.add_argument(
                "phase",
                nargs="?",
                metavar="PHASE",
                help="which one (default: the one that it halted at)",
            )
            action.add_argument(
                "--reason",
                default="skipped by hand",
                metavar="TEXT",
                help="why, for the end (default: %(default)s)",
            )
        action.add_argument(
            "--json", action="store_true", help="the report as one JSON object on one line"
        )


def _add_report(report: argparse.ArgumentParser) -> None:
    report.add_argument(
        "logs",
        nargs="+",
        metavar="LOG",
        help="files of a SessionLog, of pipe --events or mcp --events; - for stdin",
    )
    report.add_argument(
        "--out",
        metavar="FILE",
        help="where the page goes; - for stdout (default: the first LOG, ending in .html)",
    )
    report.add_argument(
        "--since", type=moment, metavar="TIME", help="leave out what was before, in ISO 8601"
    )
    report.add_argument("--until", type=moment, metavar="TIME", help="leave out what was after")
    report.add_argument(
        "--json",
        action="store_true",
        help="the facts as one JSON object on one line; a page only with --out",
    )


def _add_completion(completion: argparse.ArgumentParser) -> None:
    completion.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


_Commands: TypeAlias = dict[str, tuple[Callable[[argparse.ArgumentParser], None], str, str, str]]
_COMMANDS: Final[dict[str, _Commands]] = {
    "run": {
        "mcp": (
            add_mcp,
            "relay between an MCP client and its server, which may crash, restart or forget its sessions",
            EXAMPLES,
            EPILOG,
        ),
        "pipe": (
            _add_pipe,
            "send JSON lines from stdin over a bridge that survives, and print what arrives as JSON lines",
            "",
            _EXIT_CODES,
        ),
        "workflow": (
            _add_workflow,
            "run a workflow, look how far it is, resume it, skip a phase, abort it",
            "",
            _TARGETS,
        ),
    },
    "try it out": {
        "demo": (
            _add_demo,
            "see it survive: an embedded bridge, a broken line, and a ledger of every message",
            "",
            "",
        ),
        "serve": (
            _add_serve,
            "run the embedded bridge: lines typed here go to the client, what it sends is printed",
            "",
            "",
        ),
    },
    "explain and inspect": {
        "classify": (
            _add_classify,
            "explain an error: what it means, whether repeating helps, what to do",
            "",
            _FORMS,
        ),
        "doctor": (
            _add_doctor,
            "find out what a bridge or an MCP server guarantees: connect, cut or kill, look at what comes back",
            "",
            _DOCTOR,
        ),
        "backoff": (
            _add_backoff,
            "look at a schedule of waits: a table, a picture, runs",
            "",
            _SCHEDULES,
        ),
        "check": (
            _add_check,
            "check a file of settings: every mistake at once, and nothing started",
            "",
            _CHECK,
        ),
        "report": (_add_report, "make one page of an incident from logs of events", "", _LOGS),
    },
    "your shell": {
        "completion": (
            _add_completion,
            "print the script by which a shell completes commands and options",
            "",
            _COMPLETION,
        ),
    },
}
"""By group and name: the function that adds a command's options, what the command does, its examples and its epilog."""
