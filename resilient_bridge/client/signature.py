"""What the arguments of BridgeClient may be, for type checkers alone."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias


if TYPE_CHECKING:
    from ..protocol import Gap, Store
    from ..telemetry.events import OutboundInDoubt

TextSource: TypeAlias = str | Callable[[], str] | Callable[[], Awaitable[str]]
"""A text, or a function, sync or async, that is asked for it at each attempt to connect."""
Headers: TypeAlias = (
    Mapping[str, str] | Callable[[], Mapping[str, str]] | Callable[[], Awaitable[Mapping[str, str]]]
)
"""Headers, or a function, sync or async, that is asked for them at each attempt to connect."""
CertificatePin: TypeAlias = str | Sequence[str]
"""The SHA-256 of the server's certificate, `sha256:…`, or of several, one of which is enough."""
OnGap: TypeAlias = Callable[[Gap], Awaitable[None] | None]
"""Called with each place in the stream where messages may be missing; a coroutine is awaited."""
OnDoubt: TypeAlias = Callable[[OutboundInDoubt], Awaitable[None] | None]
"""Called after a loss that leaves sends in doubt; a coroutine is awaited."""
Storage: TypeAlias = str | os.PathLike[str] | Store
"""Where positions and sends are kept: a path (SQLite), a redis:// URL, or a store object."""
CheckFunction: TypeAlias = Callable[[], Awaitable[bool]] | Callable[[], bool]
"""Says whether the connection is well; False, an error or no answer has it tested."""
