"""What is evaluated on each attempt: URL, token, headers, as values or as (async) callables."""

from __future__ import annotations

import inspect
from typing import Any

from ..errors import BridgeError, Failure


async def ask(source: Any) -> Any:
    """Return a value, or what a callable (plain or async) returns now.

    Failing credentials are AUTH_REFRESH_FAILED.
    """
    if not callable(source):
        return source
    try:
        value = source()
        return await value if inspect.isawaitable(value) else value
    except BridgeError:
        raise
    except Exception as error:
        raise BridgeError(
            Failure.of(
                "AUTH_REFRESH_FAILED", f"asking for credentials raised {type(error).__name__}", cause=error
            )
        ) from error
