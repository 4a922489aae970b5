"""What tests use of `resilient_bridge.stores` below its door."""

from __future__ import annotations

from tests.internals import lazily


__getattr__ = lazily(
    "resilient_bridge.stores",
    {
        "": "effects session_log session_record",
        "machine_state": "limit_file",
        "redis.known": "Change",
        "redis.url": "without_secrets",
        "redis_state": "circuit",
        "redis_state.exchange": "Exchange",
        "redis_state.scripts": "LIMIT LIMITS",
        "rows": "entry_row frame_of mark_rows position_of row_text watermark_of",
        "session_lines": "LONGEST_LINE event_line log_line record_line viber_line",
        "session_record": "on_enter on_exit on_lost on_renamed",
        "sqlite": "commits database migration opening sends store",
        "sqlite.database": "Database PAGE insert is_good summed",
        "sqlite.integrity": "faults_of",
        "sqlite.log_end": "log_of",
        "sqlite.opening": "open_database",
        "sqlite.sends": "Sends",
        "sqlite.versions": "LAYOUTS Layout",
        "state_files.journal": "Entry SavedChange history_of",
        "state_files": "journaled state_file",
        "state_files.journaled": "JournaledFile",
        "state_files.document": (
            "Document FORMAT InvalidDocumentError identity_of instant read_document read_flat "
            "write_document write_flat"
        ),
    },
)
