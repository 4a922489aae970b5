"""Where positions and unsettled sends are kept: in memory by default, in a file or in Redis to survive the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazily
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
    __getattr__ = lazily(__name__, _HOMES)
