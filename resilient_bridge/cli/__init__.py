"""The entry point of the command line, `main`: what all commands have in common.

Rule: a command's modules are imported when it runs, so that `--help` is fast.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from importlib import import_module
from typing import Final

from .commands import parser
from .printing import discard_output, is_unread


__all__ = ["main"]

_SIGPIPE: Final = 141
_USAGE: Final = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    2 for a wrong command line, 130 when an interrupt (Ctrl-C) ends a command that does not handle
    it, 141 when stdout is a closed pipe.
    """
    try:
        arguments = _parsed(list(sys.argv[1:] if argv is None else argv))
    except SystemExit:  # after --help: flush here, so that a closed pipe causes no traceback
        try:
            sys.stdout.flush()
        except OSError as error:
            if is_unread(error):
                return _unread()
            raise
        raise
    module, _, function = str(arguments.run).partition(":")
    run: Callable[[argparse.Namespace], int] = getattr(
        import_module(f".{module}", __name__), function
    )
    try:
        with debugging(arguments):
            return run(arguments)
    except _EnvironmentError as error:
        print(f"resilient-bridge: {error}", file=sys.stderr)
        return _USAGE
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        if is_unread(error):  # `… | head`
            return _unread()
        raise


def _parsed(words: list[str]) -> argparse.Namespace:
    command: list[str] | None = None
    every = parser()
    if words[:1] in (["mcp"], ["doctor"]):
        ours, command = every.commands[words[0]].split_command(words[1:])
        words = [words[0], *ours]
    arguments = every.parse_args(words)
    arguments.command, arguments.words = command, words[1:]
    return arguments


class _EnvironmentError(Exception):
    """An environment variable with an invalid value."""


def debugging(arguments: argparse.Namespace) -> AbstractContextManager[object]:
    """Return a context that logs in debug mode, if the environment or else `--config` requests it.

    Raises `_EnvironmentError` for an environment variable with an invalid value.
    """
    is_asked_for = os.environ.get("RESILIENT_BRIDGE_DEBUG") or "gasoline:" in os.environ.get(
        "DEBUG", ""
    )
    config = getattr(arguments, "config", None)
    if not is_asked_for and config is None:
        return nullcontext()
    from ..failure import ConfigError
    from ..settings import load
    from ..telemetry import Debug

    try:
        if is_asked_for:
            return Debug.from_env()
        with suppress(ConfigError):  # the command itself reports the problems of its file
            return load(config).debug
        return nullcontext()
    except ConfigError as error:
        raise _EnvironmentError(str(error.failure)) from error


def _unread() -> int:
    """End quietly; return the exit code that shells use for SIGPIPE."""
    discard_output()
    return _SIGPIPE
