"""Which calls may be repeated although they may have run: what the user says about them, and the call that a predicate sees."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias, cast

import attrs

from ..errors import config_error


__all__ = ["Call", "Idempotent", "checked_idempotent"]


@attrs.frozen
class Call:
    """A call on a wrapped client or a link, as an `idempotent=` predicate sees it. `method` is dotted: "files.create"."""

    method: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


Idempotent: TypeAlias = bool | Collection[str] | Callable[[Call], bool]
"""Which calls may be repeated although they may have run: all or none, those of these names, or what a predicate says."""


def checked_idempotent(given: Idempotent, path: str) -> Idempotent:
    """Return what says which calls may be repeated; a single name is a mistake."""
    if isinstance(given, bool) or callable(given):
        return given
    if isinstance(given, str) or not isinstance(cast("object", given), Collection):
        raise config_error(path, "True, False, names of methods, or a callable that takes a Call", given)
    return frozenset(given)
