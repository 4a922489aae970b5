"""The options of `mcp`, and the `Sidecar` that is made from them.

Rule: this module parses the texts; `Sidecar` validates the values.
"""

from __future__ import annotations

import argparse
import os
import re
from typing import TYPE_CHECKING, Any, Final

from .options import seconds


if TYPE_CHECKING:
    from collections.abc import Callable

    from ..adapters.sidecar.options import Sidecar


EXAMPLES: Final = """examples:
  resilient-bridge mcp npx -y @modelcontextprotocol/server-memory
  resilient-bridge mcp https://example.org/mcp --header "Authorization: Bearer env:TOKEN"
  resilient-bridge mcp --idempotent search --timeout 60 python server.py

the entry for a client's configuration:
  resilient-bridge mcp --print-config claude-desktop npx -y @modelcontextprotocol/server-memory
  resilient-bridge mcp --install claude-desktop memory npx -y @modelcontextprotocol/server-memory

from a clone, as the package is not on PyPI yet; run it by uvx, or install the command:
  uvx --from PATH-TO-A-CLONE resilient-bridge mcp npx -y @modelcontextprotocol/server-memory
  pipx install PATH-TO-A-CLONE"""
EPILOG: Final = """Put it in front of a server in your MCP client's configuration: our options, then the command that starts the server, or its URL.
What must not run twice is not repeated, and only you say what may; `OUTCOME UNKNOWN` and `NOT EXECUTED` are results that a model can act on.
Exit codes: 0 the client has gone; 1 with --http, the address cannot be had; 2 wrong usage."""
_EVERY: Final = "*"
HTTP_LIMITS: Final = ("connections", "sessions", "servers", "head_timeout", "body_timeout")
"""The options of --http that bound what clients can cause; None stands for the default."""
# options that --config replaces; those in `_FIELDS` are fields of `Sidecar` without conversion
_FIELDS: Final = (
    *("cwd", "patience", "start_timeout", "deadline", "effects"),
    *("trust_hints", "log_arguments", "status_tool", "allow_plaintext_credentials"),
)
_IN_FILE: Final = (
    *_FIELDS,
    "header",
    "timeout",
    "concurrency",
    "rate",
    "circuit",
    "idempotent",
    "check",
    "verify",
)


def add_mcp(command: argparse.ArgumentParser) -> None:
    """Add the options of `mcp` to its parser."""
    command.add_argument(
        "url",
        nargs="?",
        metavar="URL",
        help="the server's address; or COMMAND …, which starts it: all after its first word is its own",
    )
    command.usage = "%(prog)s [OPTIONS] URL\n       %(prog)s [OPTIONS] COMMAND …"
    command.add_argument(
        "--header", action="append", default=[], metavar='"NAME: VALUE"',
        help="a header for the URL; a word env:NAME or file:PATH in it is replaced by what that holds; may be repeated",
    )  # fmt: skip
    command.add_argument(
        "--config",
        metavar="FILE",
        help="read the server and all that is said about it from the table mcp of FILE instead",
    )
    command.add_argument(
        "--cwd", metavar="FOLDER", help="where the command is started (default: here)"
    )
    command.add_argument(
        "--allow-plaintext-credentials",
        action="store_true",
        help="send --header over http:// to another machine, too",
    )
    command.add_argument(
        "--print-config", metavar="CLIENT",
        help="print the entry for a client's configuration and do nothing else: claude-code, claude-desktop, cursor, vscode, codex, mcpservers (a file with mcpServers), json (the entry alone)",
    )  # fmt: skip
    command.add_argument(
        "--install", nargs=2, metavar=("CLIENT", "NAME"),
        help="put the entry into the client's configuration, with a copy of the file beside it: claude-code, claude-desktop, cursor, vscode, or CLIENT=FILE",
    )  # fmt: skip
    command.add_argument(
        "--undo", action="store_true", help="with --install: put the file back as it was"
    )
    command.add_argument(
        "--name", metavar="NAME", help="with --print-config: what the server is called there"
    )
    command.add_argument(
        "--env", action="append", default=[], type=_variable, metavar="NAME[=VALUE]",
        help="a variable for the command, or with --print-config for the entry; without VALUE, as it is here; may be repeated",
    )  # fmt: skip
    _add_waits(command)
    _add_repeats(command)
    _add_views(command)
    _add_http(command)


def _add_waits(command: argparse.ArgumentParser) -> None:
    waiting = command.add_argument_group("patience and limits")
    waiting.add_argument(
        "--patience", type=seconds, default=30.0, metavar="SECONDS",
        help="how long a call waits while the server is away; below your client's timeout (default: %(default)g)",
    )  # fmt: skip
    waiting.add_argument(
        "--start-timeout", type=seconds, default=55.0, metavar="SECONDS",
        help="how long the server may take to start and to greet (default: %(default)g)",
    )  # fmt: skip
    waiting.add_argument(
        "--timeout", action="append", default=[], type=_named(seconds), metavar="[TOOL=]SECONDS",
        help="how long a call may take, of one tool or of any (default: no limit)",
    )  # fmt: skip
    waiting.add_argument(
        "--deadline",
        type=seconds,
        metavar="SECONDS",
        help="how long a call may take with its waits and repeats",
    )
    waiting.add_argument(
        "--concurrency", action="append", default=[], type=_named(_count), metavar="[TOOL=]N",
        help="at most N calls at a time, of one tool or of all together",
    )  # fmt: skip
    waiting.add_argument(
        "--rate", action="append", default=[], type=_named(_rate), metavar="[TOOL=]N/SECONDS",
        help="at most N calls in so many seconds, of one tool or of all together",
    )  # fmt: skip
    waiting.add_argument(
        "--circuit", type=_circuit, metavar="N/SECONDS",
        help="after N starts in a row that came to nothing, leave the server alone for SECONDS (default: 5, and 5 s, growing to 60)",
    )  # fmt: skip


def _add_repeats(command: argparse.ArgumentParser) -> None:
    repeating = command.add_argument_group("what may be repeated after a loss")
    repeating.add_argument(
        "--idempotent",
        action="append",
        default=[],
        metavar="TOOL",
        help="this tool may run twice, so a call that was lost is repeated; give the option once for each tool",
    )
    repeating.add_argument(
        "--trust-hints", action="store_true",
        help="believe the server when it calls a tool read-only or idempotent (of a command, read-only is believed anyway)",
    )  # fmt: skip
    repeating.add_argument(
        "--check", action="append", default=[], type=_pair, metavar="TOOL=READTOOL",
        help="name the tool that shows whether TOOL took effect: the model is told to look there",
    )  # fmt: skip
    repeating.add_argument(
        "--effects", metavar="FILE",
        help="remember in FILE the calls that must not run twice: one that is identical to a call in doubt is not sent, over restarts too",
    )  # fmt: skip
    repeating.add_argument(
        "--verify", action="append", default=[], type=_pair, metavar="TOOL=READTOOL",
        help="ask READTOOL what became of a call of TOOL in doubt, with the same arguments: an empty answer says that it did not run",
    )  # fmt: skip


def _add_views(command: argparse.ArgumentParser) -> None:
    seen = command.add_argument_group("what is seen of it")
    seen.add_argument(
        "--events",
        metavar="FILE",
        help="append a JSON object per line to FILE: each change, each call that ended",
    )
    seen.add_argument(
        "--log-arguments",
        action="store_true",
        help="with --events: the arguments of calls as well, secrets and all",
    )
    seen.add_argument(
        "--status-tool",
        action="store_true",
        help="add a tool resilient_bridge_status to the server's",
    )
    seen.add_argument("--quiet", action="store_true", help="nothing on stderr")


def _add_http(command: argparse.ArgumentParser) -> None:
    http = command.add_argument_group("several clients, over streamable HTTP")
    http.add_argument(
        "--http",
        type=_address,
        metavar="HOST:PORT",
        help="listen there instead of on stdin and stdout",
    )
    http.add_argument(
        "--shared", action="store_true", help="one server for all clients (default: one for each)"
    )
    http.add_argument(
        "--token-file",
        metavar="FILE",
        help="where the token for --http is kept, made if it is not there (default: printed once)",
    )
    http.add_argument(
        "--no-token", action="store_true", help="let every program of this machine in"
    )
    http.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="a web page that may connect; may be repeated",
    )
    http.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="HOST",
        help="a name that we may be called by; may be repeated",
    )
    http.add_argument(
        "--connections", type=_connections, metavar="N",
        help="at most N connections, of which a quarter without the token (default: 400, or half of the files that may be open)",
    )  # fmt: skip
    http.add_argument(
        "--sessions", type=_count, metavar="N", help="at most N sessions of clients (default: 1000)"
    )
    http.add_argument(
        "--servers",
        type=_count,
        metavar="N",
        help="at most N servers, one for each session (default: 64)",
    )
    http.add_argument(
        "--head-timeout", type=seconds, metavar="SECONDS",
        help="how long the head of a request may take, and a connection without the token (default: 10)",
    )  # fmt: skip
    http.add_argument(
        "--body-timeout",
        type=seconds,
        metavar="SECONDS",
        help="how long the body may take (default: 60)",
    )


def sidecar_of(arguments: argparse.Namespace) -> Sidecar:
    """Return the `Sidecar` that the options describe.

    Raises ValueError (a ConfigError is one) that names the option or field.
    """
    from ..adapters.sidecar.options import Sidecar
    from ..calls import Breaker, RateLimit
    from ..values.backoff import Backoff

    if arguments.config is not None:
        return _configured(arguments, Sidecar)
    fields: dict[str, Any] = server_of(arguments.url, arguments.command)
    if arguments.env and arguments.url is None:
        fields["env"] = dict(arguments.env)
    elif arguments.env and arguments.print_config is None and arguments.install is None:
        raise ValueError("--env: with a command, or with --print-config, expected; got a URL")
    timeouts = dict(arguments.timeout)
    rates = {
        name: RateLimit(calls, per=per, max_wait=arguments.patience)
        for name, (calls, per) in arguments.rate
    }
    if arguments.circuit is not None:
        failures, open_for = arguments.circuit
        fields["circuit"] = Breaker.consecutive(
            failures, open_for=Backoff.exponential(open_for, cap=max(60.0, open_for), jitter="none")
        )
    return Sidecar(
        headers=headers_of(arguments.header),
        timeout=timeouts.pop(_EVERY, None),
        timeouts=timeouts,
        idempotent=tuple(arguments.idempotent),
        check=dict(arguments.check),
        verify=dict(arguments.verify),
        concurrency=dict(arguments.concurrency),
        rates=rates,
        **{name: getattr(arguments, name) for name in _FIELDS},
        **fields,
    )


def _configured(arguments: argparse.Namespace, kind: type[Sidecar]) -> Sidecar:
    """Return the `Sidecar` of a settings file. Raises ValueError for options that belong there."""
    if arguments.url is not None or arguments.command is not None:
        raise ValueError("--config, a URL or a command expected, got two of them")
    parser = argparse.ArgumentParser()
    add_mcp(parser)
    plain = parser.parse_args([])
    for name in (*_IN_FILE, *(() if arguments.print_config or arguments.install else ("env",))):
        if getattr(arguments, name) != getattr(plain, name):
            raise ValueError(f"--{name.replace('_', '-')}: with --config, say it in the file")
    return kind.from_config(arguments.config)


def server_of(url: str | None, command: list[str] | None) -> dict[str, Any]:
    """Return the field of `Sidecar` for a URL or a command. Raises ValueError for none, or both."""
    if url is not None and command is not None:
        raise ValueError(f"a URL or a command expected, got both: {url!r} stands before --")
    if command is not None:
        if not command:
            raise ValueError("a command expected after --")
        return {"command": tuple(command)}
    if url is None:
        raise ValueError("the server's URL, or the command that starts it, expected")
    if not re.match(r"https?://", url):
        write = "" if "://" in url else f": write http://{url}"
        raise ValueError(
            f"a URL that begins with http:// or https://, or a command, expected, got {url!r}{write}"
        )
    return {"url": url}


def headers_of(lines: list[str]) -> dict[str, str]:
    """Return the headers of lines "NAME: VALUE".

    Raises ValueError for another form, or a repeated name.
    """
    found: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name, value = name.strip(), value.strip()
        if (
            not colon
            or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name)
            or not value
            or not value.isprintable()
        ):
            # it may hold a secret, so it is not shown
            raise ValueError('--header: "NAME: VALUE" expected')
        if name.lower() in (other.lower() for other in found):
            raise ValueError(f"--header: {name} is given twice")
        found[name] = value
    return found


def _named(read: Callable[[str], Any]) -> Callable[[str], tuple[str, Any]]:
    """Return a reader of `TOOL=VALUE`, or of a value alone, which applies to every tool."""

    def reader(text: str) -> tuple[str, Any]:
        name, equals, value = text.rpartition("=")
        if equals and not name:
            raise argparse.ArgumentTypeError(f"the name of a tool expected before =, got {text!r}")
        return name or _EVERY, read(value)

    return reader


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name:
        raise argparse.ArgumentTypeError("NAME or NAME=VALUE expected, got no name")
    if not equals and name not in os.environ:
        raise argparse.ArgumentTypeError(f"{name} is not set here: NAME=VALUE expected")
    return name, value if equals else os.environ[name]


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(
            f"a whole number of at least 1 expected, got {text[:40]!r}"
        )
    return int(text)


def _connections(text: str) -> int:
    if (found := _count(text)) < 2:
        raise argparse.ArgumentTypeError(f"at least 2 connections expected, got {found}")
    return found


def _rate(text: str) -> tuple[int, float]:
    calls, slash, per = text.partition("/")
    return _count(calls), seconds(per) if slash else 1.0


def _circuit(text: str) -> tuple[int, float]:
    failures, slash, open_for = text.partition("/")
    return _count(failures), seconds(open_for) if slash else 5.0


def _pair(text: str) -> tuple[str, str]:
    tool, _, read = text.partition("=")
    if not tool or not read:
        raise argparse.ArgumentTypeError(f"TOOL=READTOOL expected, got {text!r}")
    return tool, read


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise argparse.ArgumentTypeError(f"HOST:PORT expected, got {text!r}")
    return host.strip("[]") or "127.0.0.1", int(port)
