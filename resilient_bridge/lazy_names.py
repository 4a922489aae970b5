"""Lazy public names of a room (PEP 562): each module loads when a name of it is first used."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["lazily", "public"]


def public(name: str) -> Any:
    """Return a public name of the package at run time; `from_config` of a value finds `load` so.

    Only for a value that needs something made of all values; everything else is imported from
    below.
    """
    return getattr(import_module(__package__ or ""), name)


def lazily(
    room: str, names: Mapping[str, str], inside: Mapping[str, str] | None = None
) -> tuple[list[str], Callable[[], list[str]], Callable[[str], Any]]:
    """Return the `__all__`, `__dir__` and `__getattr__` of a room.

    `names` maps each of its modules to the module's public names, separated by blanks; "=module" is
    the module itself, under one name. `inside` is the same for names that other rooms use and users
    do not: they can be imported, and are not listed.

    A room puts it under `if not TYPE_CHECKING`: a checker that saw it would accept every misspelt
    name.
    """
    public = {name: home for home, listed in names.items() for name in listed.split()}
    homes = public | {name: home for home, listed in (inside or {}).items() for name in listed.split()}

    def load(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            msg = f"module {room!r} has no attribute {name!r}"
            raise AttributeError(msg)
        module = import_module(f".{home.removeprefix('=')}", room)
        value = module if home.startswith("=") else getattr(module, name)
        setattr(sys.modules[room], name, value)  # the next look-up costs what any global costs
        return value

    return sorted(public), lambda: sorted({*vars(sys.modules[room]), *public}), load
