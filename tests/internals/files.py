"""What tests use of `resilient_bridge.files` below its door."""

from __future__ import annotations

from tests.internals import lazily


__getattr__ = lazily(
    "resilient_bridge.files",
    {
        "": "file_changes private_files",
        "file_changes": "keep_copy remove remove_leftovers replace_atomically set_aside write_all",
        "identity": "identity_at leads_to",
        "owner": "Owner",
        "private_files": "open_private path_of prepare_directory read_private",
    },
)


def held_owners():
    """The locks of this process, by which a second owner in it is found; without them it is as another process."""
    from resilient_bridge.files import owner

    return owner._held
