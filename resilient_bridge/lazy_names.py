"""How a room offers its names without loading what is behind them (PEP 562): each module loads when a name of it is first used."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["lazily"]


def lazily(room: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a room: `homes` says in which of its modules each name is, "=module" that it is the module itself.

    A room puts it under `if not TYPE_CHECKING`: a checker that saw it would believe every misspelt name.
    """

    def load(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            msg = f"module {room!r} has no attribute {name!r}"
            raise AttributeError(msg)
        module = import_module(f".{home.removeprefix('=')}", room)
        value = module if home.startswith("=") else getattr(module, name)
        setattr(sys.modules[room], name, value)  # the next look-up costs what any global costs
        return value

    return load
