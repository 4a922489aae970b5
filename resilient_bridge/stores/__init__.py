"""Where positions and unsettled sends are kept: in memory by default, in a file or in Redis to survive the process."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from .memory import MemoryStore


if TYPE_CHECKING:
    from .redis import RedisStore as RedisStore
    from .redis_state import RedisState as RedisState
    from .session_log import SessionLog as SessionLog
    from .sqlite import SQLiteStore as SQLiteStore
    from .state_file import Loaded as Loaded
    from .state_file import StateFile as StateFile

__all__ = ["Loaded", "MemoryStore", "RedisState", "RedisStore", "SQLiteStore", "SessionLog", "StateFile"]

_HOMES = {
    "Loaded": "state_file",
    "RedisState": "redis_state",
    "RedisStore": "redis",
    "SQLiteStore": "sqlite",
    "SessionLog": "session_log",
    "StateFile": "state_file",
}


if not TYPE_CHECKING:  # sqlite3, the files' mechanics and redis are loaded by those who use them

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            msg = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(msg)
        value: object = getattr(import_module(f".{home}", __name__), name)
        globals()[name] = value
        return value
