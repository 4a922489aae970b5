"""`mcp --print-config CLIENT`: print the entry for a client's configuration.

The entry has full paths, a PATH and a working directory, which a desktop program does not provide.
Rule: the entry goes to stdout and remarks for people to stderr; nothing is started and no file is
changed.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from urllib.parse import urlsplit

from ..failure import is_sensitive, redact, sends_secret
from ..failure.extras import EXTRAS
from .printing import complain, show


if TYPE_CHECKING:
    from ..adapters.sidecar.options import Sidecar
    from ..adapters.sidecar.upstream import Receiver


class Client(NamedTuple):
    """An MCP client: the key of its servers, and where its configuration is, in words and as a path.

    No key: an entry alone. `path` has `~` for the home, and `{data}` for the folder of programs'
    data; without one, `--install` takes CLIENT=FILE. `is_json`: whether `--install` can edit it.
    """

    member: str
    where: str
    path: str = ""
    is_json: bool = True


CLIENTS: Final[Mapping[str, Client]] = {
    "claude-code": Client(
        "mcpServers",
        ".mcp.json of your project; or: claude mcp add-json NAME 'ENTRY'",
        ".mcp.json",
    ),
    "claude-desktop": Client(
        "mcpServers",
        "claude_desktop_config.json (Settings, Developer, Edit Config)",
        "{data}/Claude/claude_desktop_config.json",
    ),
    "cursor": Client(
        "mcpServers",
        "~/.cursor/mcp.json, or .cursor/mcp.json of your project",
        "~/.cursor/mcp.json",
    ),
    "vscode": Client("servers", ".vscode/mcp.json of your project", ".vscode/mcp.json"),
    "codex": Client("mcp_servers", "~/.codex/config.toml", "~/.codex/config.toml", is_json=False),
    "mcpservers": Client(
        "mcpServers",
        "the file of a client that reads mcpServers; MCP Inspector: --config FILE",
    ),
    "json": Client("", "", is_json=False),
}

_SYSTEM_PATH: Final = ("/usr/local/bin", "/usr/bin", "/bin")
_VALUED: Final = ("--print-config", "--name", "--env")
_TWO_VALUES: Final = "--install"
_FILES: Final = ("--config", "--effects", "--events", "--token-file", "--cwd")
_REFERENCES: Final = ("env:", "file:")
_HEAD: Final = 200
_CERTIFICATES: Final = (
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
)
_PROXIES: Final = ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy")
_NETWORK: Final = {*_CERTIFICATES, *_PROXIES}  # what a download may need, and only a shell has
_WRAPPERS: Final = ("npx", "uvx", "python", "python3", "node", "bunx", "deno")


def print_config(arguments: argparse.Namespace, sidecar: Sidecar) -> int:
    """Print the entry.

    Return 0, or 2 for an unknown client, --http, or what could not be started.
    """
    client: str = arguments.print_config
    if client not in CLIENTS:
        return complain(
            "mcp", f"--print-config: one of {', '.join(CLIENTS)} expected, got {client!r}"
        )
    if arguments.http is not None:
        return complain(
            "mcp",
            "--print-config: with --http there is nothing to start; give the client the address",
        )
    member = CLIENTS[client].member
    if arguments.name and not member:
        write = f"--print-config mcpservers --name {arguments.name}"
        return complain("mcp", f"--name: {client} prints the entry without a name: {write}")
    entry = entry_for(client, arguments, sidecar)
    if isinstance(entry, str):
        return complain("mcp", entry)
    name = arguments.name or _name_of(sidecar)
    file = CLIENTS[client].where
    advice = (
        f"put this into {file}"
        if file
        else "pass this to the function that starts your client's server"
    )
    remark([advice, *remarks(arguments, sidecar)])
    nested = {member: {name: entry}} if member else entry
    return show("mcp", _toml(name, entry) if client == "codex" else json.dumps(nested, indent=2))


def entry_for(client: str, arguments: argparse.Namespace, sidecar: Sidecar) -> dict[str, Any] | str:
    """Return the entry for a client, or why what it names could never be started."""
    program = None
    if sidecar.command:
        program = shutil.which(_seen_from(sidecar.cwd, sidecar.command[0]))
        if program is None:
            return _why_not(sidecar.command[0], sidecar.cwd)
        program = str(Path(program).absolute())
    elif words := _why_not_reached(sidecar):
        return words
    options = _own_options(arguments.words)
    entry = _entry(options, sidecar, program, arguments.config, dict(arguments.env))
    return {"type": "stdio", **entry} if client == "vscode" else entry


def _entry(
    options: list[str],
    sidecar: Sidecar,
    program: str | None,
    config: str | None,
    env: Mapping[str, str],
) -> dict[str, Any]:
    ours = _ourselves()
    words = [*ours[1:], "mcp", *options]
    if program is None:
        if Path(ours[0]).stem == "uv":  # the programs that it installs need a shell's
            env = {"PATH": _path_for(ours[0], ours[0]), **env}
        return {"command": ours[0], "args": words, **({"env": dict(env)} if env else {})}
    if config is None:  # a settings file has the command and its options
        if sidecar.cwd is None:  # a desktop program may start its servers in any folder
            words += ["--cwd", str(Path.cwd())]
        words += [program, *sidecar.command[1:]]  # without --, which not every client passes on
    return {"command": ours[0], "args": words, "env": {"PATH": _path_for(program, ours[0]), **env}}


def _ourselves() -> list[str]:
    """Return the command that starts this program, with full paths.

    Under uvx this program is in uv's cache, which may be emptied at any time: then the command has
    uv install it again.
    """
    uv = os.environ.get("UV")
    if uv and any((folder / "CACHEDIR.TAG").is_file() for folder in Path(sys.prefix).parents):
        python = str(Path(sys.executable).resolve())  # uv would look for one in PATH, or fetch it
        return [uv, "tool", "run", "--python", python, "--from", _source(), "resilient-bridge"]
    script = Path(sys.argv[0])
    if script.stem == "resilient-bridge":
        found = shutil.which(str(script)) or shutil.which("resilient-bridge")
        if found is not None:
            return [str(Path(found).absolute())]
    return [sys.executable, "-m", "resilient_bridge"]


def _source() -> str:
    """Return what this package was installed from, as a requirement: with its extras, and its address if it has one."""
    facts = json.loads(
        importlib.metadata.distribution("resilient-bridge").read_text("direct_url.json") or "{}"
    )
    extras = sorted(
        extra for module, (_, extra) in EXTRAS.items() if importlib.util.find_spec(module)
    )
    name = f"resilient-bridge[{','.join(extras)}]" if extras else "resilient-bridge"
    if "url" not in facts:
        return name
    if (version := facts.get("vcs_info")) is None:
        return f"{name} @ {facts['url']}"
    return f"{name} @ {version['vcs']}+{facts['url']}@{version['commit_id']}"


def _own_options(words: list[str]) -> list[str]:
    """Return our options as typed, without those of the entry itself, and with absolute paths."""
    options: list[str] = []
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        option = _whole(option)
        if option == _TWO_VALUES:
            next(rest, None)
            next(rest, None)
        elif option in _VALUED:
            if not equals:
                next(rest, None)
        elif option in _FILES:
            value = value if equals else next(rest, "")
            options += [option, str(Path(value).expanduser().absolute())]
        else:
            options.append(word)
    return options


def _whole(option: str) -> str:
    """Return the option that a word is or abbreviates.

    It was parsed before, so the abbreviation is unique.
    """
    is_option = option.startswith("--")
    return next(
        (
            name
            for name in (*_VALUED, *_FILES, _TWO_VALUES)
            if is_option and name.startswith(option)
        ),
        option,
    )


def _seen_from(cwd: str | None, program: str) -> str:
    """Return a program's path as seen from our folder: a relative path is relative to `cwd`."""
    is_relative = Path(program).name != program and not Path(program).is_absolute()
    return str(Path(cwd) / program) if is_relative and cwd is not None else program


def _why_not(program: str, cwd: str | None) -> str:
    """Return why a program cannot be started, in the same words as the sidecar."""
    if Path(program).name == program:
        return f"command not found: {program}, looked for in {os.environ.get('PATH', 'no PATH')}"
    if (Path(cwd or ".") / program).is_file():
        return f"not allowed to run {program}: it is not executable; name its interpreter before it, or chmod +x"
    return f"command not found: {program}, seen from {Path(cwd or '.').absolute()}"


def _why_not_reached(sidecar: Sidecar) -> str:
    """Return why no connection to the URL can be made whatever its secrets are; "" if one can."""
    from ..adapters.sidecar.serving import upstream_of
    from ..adapters.sidecar.upstream import LostError

    shown = sidecar.evolve(headers=dict.fromkeys(sidecar.headers, "x"))
    try:
        # prepares a client and sends nothing; what a server would send has no receiver
        asyncio.run(upstream_of(shown, cast("Receiver", None)).open())
    except LostError as error:
        return error.loss.reason
    except OSError as error:  # of the client's certificates, as nothing else is read
        words = (error.strerror or str(error)).lower()
        return f"SSL_CERT_FILE or SSL_CERT_DIR: certificates that can be read expected ({words})"
    return ""


def _path_for(program: str, ours: str) -> str:
    """Return a PATH for the server.

    It has the folders of `program` and `ours`, of the interpreter in a `#!/usr/bin/env` line, and
    of the system's programs.
    """
    folders = [Path(program).parent, Path(ours).parent]
    try:
        with Path(program).open("rb") as file:
            first = file.read(_HEAD).split(b"\n", 1)[0].decode("utf-8", "replace")
    except OSError:
        first = ""
    if (
        first.startswith("#!")
        and "env" in first
        and (interpreter := shutil.which(first.split()[-1]))
    ):
        folders.append(Path(interpreter).parent)
    once: dict[str, str] = {}  # each folder under the first of its names
    for folder in folders:
        once.setdefault(os.path.realpath(folder), str(folder))
    return os.pathsep.join(dict.fromkeys([*once.values(), *_SYSTEM_PATH]))


def _name_of(sidecar: Sidecar) -> str:
    """Return a name for the server: its program, its host, or what a wrapper such as npx runs."""
    words = [word for word in sidecar.command if not word.startswith("-")]
    if words:
        is_wrapped = len(words) > 1 and Path(words[0]).stem in _WRAPPERS
        name = Path(words[1 if is_wrapped else 0]).stem
    else:
        address = urlsplit(sidecar.url or "")
        name = f"{address.hostname or ''}-{address.port or ''}"
    return (
        "".join(sign if sign.isalnum() or sign in "-_" else "-" for sign in name).strip("-")
        or "server"
    )


def _toml(name: str, entry: Mapping[str, Any]) -> str:
    # A JSON string, or array of strings, is valid TOML as well.
    lines = [f"[mcp_servers.{json.dumps(name)}]"]
    lines += [
        f"{key} = {json.dumps(entry[key], ensure_ascii=False)}" for key in ("command", "args")
    ]
    if "env" in entry:
        pairs = ", ".join(
            f"{key} = {json.dumps(value, ensure_ascii=False)}"
            for key, value in entry["env"].items()
        )
        lines.append(f"env = {{ {pairs} }}")
    return "\n".join(lines)


def remarks(arguments: argparse.Namespace, sidecar: Sidecar) -> list[str]:
    """Return what a person has to know about the entry."""
    config, env = arguments.config, dict(arguments.env)
    remarks: list[str] = []
    if config is not None and sidecar.command and sidecar.cwd is None:
        text = (
            f"add cwd to the table mcp of {config}, for example cwd = {json.dumps(str(Path.cwd()))}"
        )
        remarks.append(f"{text}: a client may start the server in any folder")
    words = [word for value in sidecar.headers.values() for word in value.split()]
    names = {word[4:] for word in words if word.startswith("env:")} - env.keys()
    if names:
        options = " ".join(f"--env {name}" for name in sorted(names))
        text = f"add {', '.join(sorted(names))} to its env ({options}): a desktop program does not have your shell's"
        remarks.append(text)
    if network := sorted(os.environ.keys() & _NETWORK - env.keys()):
        options = " ".join(f"--env {name}" for name in network)
        text = f"a desktop program does not have what is set here: {', '.join(network)}"
        remarks.append(f"{text}; if the server, npx or uvx needs it, add {options}")
    if secrets := _in_clear(sidecar, config, env):
        text = f"this entry holds secrets in clear: {', '.join(secrets)}; keep its file to yourself"
        remarks.append(f"{text}, or write env:NAME or file:PATH in a header")
    return remarks


def remark(lines: list[str]) -> None:
    """Print remarks for people."""
    for line in lines:
        print(f"resilient-bridge mcp: {line}", file=sys.stderr)


def _in_clear(sidecar: Sidecar, config: str | None, env: Mapping[str, str]) -> list[str]:
    """Return where the entry holds what looks like a secret. What a settings file holds is not in it."""
    places = [f"variable {name}" for name, value in env.items() if _is_secret(name, value)]
    if config is not None:
        return places
    places += [
        f"header {name}"
        for name, value in sidecar.headers.items()
        if _is_secret(name, value)
        and not any(word.startswith(_REFERENCES) for word in value.split())
    ]
    command = " ".join(sidecar.command)
    if redact(command, limit=len(command) + 1) != command:
        places.append("the command")
    address = urlsplit(sidecar.url or "")
    if address.username or address.password or sends_secret(address.query):
        places.append("the URL")
    return places


def _is_secret(name: str, value: str) -> bool:
    return is_sensitive(name) or redact(value) != value
