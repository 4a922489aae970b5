"""Turns a user's `store=` argument into a store."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

from ..failure import config_error
from .memory import MemoryStore


if TYPE_CHECKING:
    from ..protocol import Store


def store_of(store: object, path: str = "BridgeClient.store") -> Store:
    """Return the store for a path, a Redis URL, or a store object; for None one in memory."""
    if store is None:
        return MemoryStore()
    if isinstance(store, str) and store.startswith(("redis://", "rediss://", "unix://")):
        from .redis.store import RedisStore

        return RedisStore(store)
    if isinstance(store, (str, os.PathLike)):
        from .sqlite.store import SQLiteStore

        return SQLiteStore(cast("str | os.PathLike[str]", store))
    if not isinstance(store, type) and all(
        hasattr(store, name) for name in ("is_durable", "open", "put", "mark", "settle")
    ):
        return cast("Store", store)
    wanted = "a path, a redis:// URL, or a store such as SQLiteStore"
    got = f"the class {store.__name__}" if isinstance(store, type) else type(store).__name__
    from ..failure.wrong_values import line_for_value

    raise config_error(path, wanted, got, write=line_for_value(path, store), got=got)
