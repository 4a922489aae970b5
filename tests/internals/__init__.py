"""What tests use of the package below its doors, in a module for each room: a module that moves changes one file here.

Rule: a test imports `resilient_bridge` and the doors of its rooms (`resilient_bridge.failure`); what lies deeper it imports
from here. Each module is loaded when a name of it is first used, so a child process pays for what it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(room: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a room: `names` maps its modules to the names that tests use, separated by blanks.

    A name may be a module's; those of "" are the room's. "other=name" is a name under another one, where the room has two of it.
    """
    homes = {}
    for module, listed in names.items():
        for entry in listed.split():
            name, _, original = entry.partition("=")
            homes[name] = (module, original or name)

    def load(name: str) -> Any:
        if name not in homes:
            msg = f"{name} of {room} is not listed in tests/internals"
            raise AttributeError(msg)
        module, original = homes[name]
        home = f"{room}.{module}" if module else room
        try:
            return getattr(import_module(home), original)
        except AttributeError:
            return import_module(f"{home}.{original}")

    return load
