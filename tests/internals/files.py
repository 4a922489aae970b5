"""What tests use of `resilient_bridge.files` below its door."""

from __future__ import annotations

from tests.internals import lazily


__getattr__ = lazily(
    "resilient_bridge.files",
    {
        "": "file_changes private_files",
        "file_changes": "keep_copy remove remove_leftovers replace_atomically set_aside write_all",
        "identity": "identity_at leads_to",
        "owner": "Owner _held",
        "running": "Process is_running this_process",
        "private_files": "open_private path_of prepare_directory read_private",
    },
)
