"""What the arguments of BridgeClient may be, for type checkers alone."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypedDict

from ..values.fields import Seconds


if TYPE_CHECKING:
    from ..protocol import Gap, Store
    from ..telemetry.events import OutboundInDoubt

Text: TypeAlias = str | Callable[[], str] | Callable[[], Awaitable[str]]
Headers: TypeAlias = (
    Mapping[str, str] | Callable[[], Mapping[str, str]] | Callable[[], Awaitable[Mapping[str, str]]]
)
Pin: TypeAlias = str | Sequence[str]
OnGap: TypeAlias = Callable[[Gap], Awaitable[None] | None]
OnDoubt: TypeAlias = Callable[[OutboundInDoubt], Awaitable[None] | None]
Storage: TypeAlias = str | os.PathLike[str] | Store
Check: TypeAlias = Callable[[], Awaitable[bool]] | Callable[[], bool]


class SendOptions(TypedDict, total=False):
    """The keyword arguments of `send`."""

    idempotency_key: str | None
    ttl: Seconds | None
    coalesce: str | None
    volatile: bool
