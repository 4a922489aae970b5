"""`mcp --http`: the sidecar for several clients, over streamable HTTP.

Rule: the token is generated here, and either printed once or, on request, stored in a file.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..adapters.processes.signals import HANG_UP, TERM, on_signals
from ..adapters.sidecar.front_http_guard import new_http_token, save_http_token
from ..adapters.sidecar.serving import serve_sidecar
from .mcp_options import HTTP_LIMITS
from .printing import complain, words_of


if TYPE_CHECKING:
    from ..adapters.sidecar.options import Sidecar


_SHORTEST: Final = 16  # characters of a token


def serve(arguments: argparse.Namespace, sidecar: Sidecar) -> int:
    """Serve until a signal arrives; return 0, 1 if the address is not available, 2 if misused."""
    if arguments.no_token and arguments.token_file:
        return complain("mcp", "--no-token or --token-file expected, got both")
    if arguments.quiet and not (arguments.no_token or arguments.token_file):
        return complain(
            "mcp", "--quiet: --token-file or --no-token expected, because no token is printed"
        )
    try:
        token = None if arguments.no_token else _token(arguments.token_file)
        return asyncio.run(_serve(arguments, sidecar, token))
    except OSError as error:
        complain(
            "mcp", f"cannot listen on {arguments.http[0]}:{arguments.http[1]}: {words_of(error)}"
        )
        return 1


def _token(path: str | None) -> str:
    """Return the token in the file at `path`, or a new token if `path` is None.

    A file that does not exist is created with a new token, readable by this user only. Raises
    ValueError for a file that cannot be read or has no valid token; ConfigError or StoreError for
    one that cannot be created.
    """
    if path is None:
        return new_http_token()
    try:
        token = Path(path).expanduser().read_text("ascii").strip()
    except FileNotFoundError:
        token = new_http_token()
        save_http_token(Path(path).expanduser(), token)
    except (OSError, UnicodeDecodeError) as error:
        words = words_of(error) if isinstance(error, OSError) else "it is not ASCII"
        raise ValueError(f"--token-file: cannot read {path!r}: {words}") from error
    if len(token) < _SHORTEST or not token.isprintable() or " " in token:
        raise ValueError(
            f"--token-file: a token of at least {_SHORTEST} visible characters expected in {path!r}"
        )
    return token


async def _serve(arguments: argparse.Namespace, sidecar: Sidecar, token: str | None) -> int:
    host, port = arguments.http
    asked = asyncio.Event()
    serving = serve_sidecar(
        sidecar,
        token=token,
        host=host,
        port=port,
        shared=arguments.shared,
        allowed_hosts=arguments.allow_host,
        allowed_origins=arguments.allow_origin,
        events=arguments.events,
        stderr=None if arguments.quiet else sys.stderr.fileno(),
        **{name: value for name in HTTP_LIMITS if (value := getattr(arguments, name)) is not None},
    )
    with on_signals(asked.set, signal.SIGINT, *TERM, *HANG_UP):
        async with serving as url:
            if not arguments.quiet:
                _tell_where(url, token, arguments.token_file)
            await asked.wait()
    return 0


def _tell_where(url: str, token: str | None, file: str | None) -> None:
    if token is not None:
        where = f"the token is in {file}" if file else f"the token for clients: {token}"
        print(f"resilient-bridge mcp: {where}", file=sys.stderr)
    print(f"resilient-bridge mcp: serving at {url}", file=sys.stderr, flush=True)
