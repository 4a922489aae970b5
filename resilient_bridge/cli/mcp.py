"""`mcp`: the sidecar for an MCP server that may crash, restart or forget its sessions.

Rule: stdout carries protocol messages, or the entry of --print-config, and nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Final

from ..adapters.sidecar.serving import run_sidecar
from ..failure import ConfigError, StoreError
from .mcp_options import HTTP_LIMITS, sidecar_of
from .printing import complain
from .terminal import is_terminal


_BY_HAND: Final = "resilient-bridge mcp: waiting for an MCP client on stdin; --print-config prints the entry for one. Ctrl-C ends it"


def run(arguments: argparse.Namespace) -> int:
    """Run the sidecar until its client has gone or a signal arrives; with --http, until a signal.

    Return 0, 1 if the address of --http is not available, or 2 for wrong usage.
    """
    try:
        if arguments.undo or arguments.install is not None:
            return _installed(arguments)
        sidecar = sidecar_of(arguments)
        if arguments.print_config is not None:
            from .mcp_config import print_config

            return print_config(arguments, sidecar)
        if arguments.http is not None:
            from .mcp_http import serve

            return serve(arguments, sidecar)
        for name in (
            "shared",
            "no_token",
            "token_file",
            "allow_origin",
            "allow_host",
            *HTTP_LIMITS,
        ):
            if getattr(arguments, name):
                return complain("mcp", f"--{name.replace('_', '-')} needs --http")
        stderr = None if arguments.quiet else sys.stderr.fileno()
        if is_terminal(sys.stdin) and not arguments.quiet:
            print(_BY_HAND, file=sys.stderr)
        asyncio.run(run_sidecar(sidecar, events=arguments.events, stderr=stderr))
    except (ConfigError, StoreError) as error:
        # The text of a settings file's error has one line for each problem. Other errors are about
        # a field, or about the file of --events or --token-file.
        has_lines = "source" in error.failure.details
        first, *rest = str(error).splitlines() if has_lines else [error.failure.message]
        code = complain("mcp", first)
        print(*rest, sep="\n", end="\n" if rest else "", file=sys.stderr)
        return code
    except ValueError as error:
        return complain("mcp", str(error))
    return 0


def _installed(arguments: argparse.Namespace) -> int:
    """Edit the client's configuration. Raises as `mcp_install` does."""
    from .mcp_install import install, undo

    if arguments.install is None:
        return complain("mcp", "--undo: with --install CLIENT NAME expected")
    for option in ("print_config", "name"):
        if getattr(arguments, option) is not None:
            return complain("mcp", f"--install or --{option.replace('_', '-')} expected, got both")
    if not arguments.undo:
        return install(arguments, sidecar_of(arguments))
    if arguments.command is not None or arguments.url is not None:
        return complain("mcp", "--undo: no command and no URL expected")
    return undo(arguments)
