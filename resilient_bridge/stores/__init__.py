"""Stores for positions, unsettled sends, effects in doubt, sessions, state files, and what processes share: in memory, a file, or Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazily


if TYPE_CHECKING:
    from ..calls.effects import NOT_RUN as NOT_RUN
    from ..calls.effects import DoubtfulCall as DoubtfulCall
    from ..calls.effects import Ran as Ran
    from ..protocol.session_records import SessionCheckpoint as SessionCheckpoint
    from ..protocol.session_records import SessionRecord as SessionRecord
    from ..protocol.session_records import SessionState as SessionState
    from .effects import Effects as Effects
    from .machine_state.state import MachineState as MachineState
    from .memory import MemoryStore as MemoryStore
    from .redis.store import RedisStore as RedisStore
    from .redis_state.state import RedisState as RedisState
    from .session_log import SessionLog as SessionLog
    from .sessions import Sessions as Sessions
    from .sqlite.store import SQLiteStore as SQLiteStore
    from .state_files.state_file import Loaded as Loaded
    from .state_files.state_file import StateFile as StateFile

_NAMES = {
    ".calls.effects": "DoubtfulCall NOT_RUN Ran",
    "effects": "Effects",
    "machine_state.state": "MachineState",
    "memory": "MemoryStore",
    "redis.store": "RedisStore",
    "redis_state.state": "RedisState",
    "session_log": "SessionLog",
    ".protocol.session_records": "SessionCheckpoint SessionRecord SessionState",
    "sessions": "Sessions",
    "sqlite.store": "SQLiteStore",
    "state_files.state_file": "Loaded StateFile",
}


if not TYPE_CHECKING:
    __all__, __dir__, __getattr__ = lazily(__name__, _NAMES)
