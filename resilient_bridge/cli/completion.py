"""`resilient-bridge completion SHELL`: print a script that completes commands and options.

Rule: the words are read from the parser itself, so that they are never out of date. They are text
in the script, so that completing a word does not start this program.
"""

from __future__ import annotations

import argparse
import shlex
from typing import Final

from .mcp_config import CLIENTS
from .options import PRESETS
from .printing import show


_PROGRAM: Final = "resilient-bridge"
_WORDS_OF: Final = {
    "--preset": PRESETS,
    "--print-config": tuple(CLIENTS),
    "--install": tuple(name for name, client in CLIENTS.items() if client.is_json),
}
_FILE: Final = "FILE"
"""The placeholder in the help for an option that takes a file."""

_BASH: Final = """\
_resilient_bridge() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} command= i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "$command ${{COMP_WORDS[i]}}" in
{paths}
        esac
    done
    case "$before" in
{values}
    esac
    local words=
    case "$command" in
{words}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    [ ${{#COMPREPLY[@]}} -gt 0 ] || COMPREPLY=($(compgen -f -- "$word"))
}}
"""


def run(arguments: argparse.Namespace) -> int:
    """Print the script for a shell."""
    from .commands import parser

    every = parser()
    write = {"bash": _bash, "zsh": _zsh, "fish": _fish}[arguments.shell]
    files: set[str] = set()
    commands = _commands(every, "", files)
    return show("completion", write(commands, files), is_data=True)


_Commands = dict[str, tuple[dict[str, str], tuple[str, ...]]]
"""For each command, by its words: its options with their help, and its subcommands or choices."""


def _commands(one: argparse.ArgumentParser, path: str, files: set[str]) -> _Commands:
    """Return a command and its subcommands; add their options that take a file to `files`."""
    options: dict[str, str] = {}
    found: _Commands = {}
    below: tuple[str, ...] = ()
    for action in one._actions:  # noqa: SLF001 -- argparse has no other way to ask
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] -- as above
            choices: dict[str, argparse.ArgumentParser] = dict(action.choices)  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
            below = tuple(choices)
            for name, parser in choices.items():
                found |= _commands(parser, f"{path} {name}", files)
        else:
            text = (action.help or "").partition(" (default")[0]
            options |= dict.fromkeys(action.option_strings, text)
            files.update(action.option_strings if action.metavar == _FILE else ())
            if action.choices and not action.option_strings:
                below += tuple(map(str, action.choices))
    return {path: (options, below), **found}


def _bash(commands: _Commands, files: set[str]) -> str:
    paths = "\n".join(
        f'            "{path}") command={shlex.quote(path)} ;;' for path in commands if path
    )
    words = "\n".join(
        f'        "{path}") words={shlex.quote(" ".join((*below, *options)))} ;;'
        for path, (options, below) in commands.items()
    )
    values = "\n".join(
        [
            f'        {name}) COMPREPLY=($(compgen -W "{" ".join(of)}" -- "$word")); return ;;'
            for name, of in _WORDS_OF.items()
        ]
        + [f'        {"|".join(sorted(files))}) COMPREPLY=($(compgen -f -- "$word")); return ;;']
    )
    return f"{_BASH.format(paths=paths, values=values, words=words)}complete -F _resilient_bridge {_PROGRAM}"


def _zsh(commands: _Commands, files: set[str]) -> str:
    # zsh reads the bash form, with its compatibility function.
    return f"#compdef {_PROGRAM}\nautoload -U +X bashcompinit && bashcompinit\n{_bash(commands, files)}"


def _fish(commands: _Commands, files: set[str]) -> str:
    lines = [f"complete -c {_PROGRAM} -n __fish_use_subcommand -f"]
    for path, (options, below) in commands.items():
        names = path.split()
        seen = (
            "; and ".join(f"__fish_seen_subcommand_from {name}" for name in names)
            or "__fish_use_subcommand"
        )
        for name in below:
            unless = f"; and not __fish_seen_subcommand_from {' '.join(below)}" if names else ""
            lines.append(f"complete -c {_PROGRAM} -n '{seen}{unless}' -f -a {name}")
        for option, text in options.items():
            flag = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
            values = (
                f" -x -a {shlex.quote(' '.join(_WORDS_OF[option]))}" if option in _WORDS_OF else ""
            )
            taken = " -r -F" if option in files else ""
            lines.append(
                f"complete -c {_PROGRAM} -n '{seen}' {flag}{values}{taken} -d {_fish_text(text)}"
            )
    return "\n".join(lines)


def _fish_text(text: str) -> str:
    return "'" + " ".join(text.split()).replace("\\", "\\\\").replace("'", "\\'")[:60] + "'"
