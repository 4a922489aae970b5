"""Lazy public names of a room (PEP 562): each module loads when a name of it is first used."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from opcode import opmap
from typing import TYPE_CHECKING, Any, Final


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "MissingNameError",
    "address",
    "doors",
    "found",
    "gathered",
    "home_of",
    "lazily",
    "missing",
    "names_of",
    "public",
]

_PACKAGE: Final = __package__ or ""
_VALUES: Final = "presets"  # this door makes its values when it is loaded


def public(name: str) -> Any:
    """Return a public name of the package at run time; `from_config` of a value finds `load` so.

    Only for a value that needs something made of all values; everything else is imported from
    below.
    """
    return getattr(import_module(__package__ or ""), name)


def names_of(door: str) -> tuple[str, ...]:
    """Return the public names of a door, such as "stores"; of the top level for an empty text."""
    return tuple(import_module(f"{_PACKAGE}.{door}" if door else _PACKAGE).__all__)


def home_of(name: str) -> str:
    """Return where a name of the top level is made, without loading it; empty for other names."""
    table: Mapping[str, str] = import_module(_PACKAGE)._NAMES  # noqa: SLF001 -- the table of this package
    return next((home for home, listed in table.items() if name in listed.split()), "")


def doors() -> list[str]:
    """Return the public modules beside the top level whose names can be listed at no cost."""
    table: Mapping[str, str] = import_module(_PACKAGE)._NAMES  # noqa: SLF001 -- the table of this package
    return [name for home, name in table.items() if home.startswith("=") and name != _VALUES]


@cache
def _addresses() -> dict[str, str]:
    found = {name: f"rb.{door}.{name}" for door in doors() for name in names_of(door)}
    return found | {name: f"rb.{name}" for name in names_of("")}


def address(name: str) -> str | None:
    """Return where a public name is found, as one writes it: `rb.bridge.Gap`; None for other names."""
    return _addresses().get(name)


def found(name: str) -> Any:
    """Return what a public name names, wherever it is listed; None for other names."""
    where = address(name)
    value: Any = None if where is None else import_module(_PACKAGE)
    for part in (where or "").split(".")[1:]:
        value = getattr(value, part)
    return value


class MissingNameError(AttributeError):
    """An AttributeError that says what to write; that is looked for when somebody reads it.

    `hasattr` and imports, which ask for names that need not be there, pay nothing for it.
    """

    def __str__(self) -> str:
        """Return Python's own text, and what to write."""
        plain, *about = self.args
        hint: str = import_module(f"{_PACKAGE}.failure.wrong_names").hint(*about)
        return f"{plain}; write {hint}" if hint else str(plain)


def missing(room: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a room that has all its names already."""

    def refuse(name: str) -> Any:
        raise _missing(room, name)

    return refuse


def _missing(room: str, name: str) -> Exception:
    """Return the error for a name that a room has not; of `from room import name` an ImportError."""
    asked = sys._getframe(2)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] -- of the code that named it
    error = MissingNameError(f"module {room!r} has no attribute {name!r}", "module", room, name)
    if asked.f_code.co_code[asked.f_lasti] != opmap["IMPORT_FROM"]:
        return error
    write = str(error).partition("; write ")[2]
    text = f"cannot import name {name!r} from {room!r}"
    return ImportError(f"{text}; write {write}" if write else text, name=name)


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
    homes = public | {
        name: home for home, listed in (inside or {}).items() for name in listed.split()
    }

    def load(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise _missing(room, name)
        module = import_module(f".{home.removeprefix('=')}", room)
        value = module if home.startswith("=") else getattr(module, name)
        setattr(sys.modules[room], name, value)  # the next look-up costs what any global costs
        return value

    return sorted(public), lambda: sorted({*vars(sys.modules[room]), *public}), load


def gathered(room: str, *homes: str) -> tuple[Callable[[], list[str]], Callable[[str], Any]]:
    """Return the `__dir__` and `__getattr__` of a door that lists what its modules list in `__all__`.

    No name stands in the door, whose own `__all__` is made when it is asked for. A module loads when
    no module before it has the name.
    """

    def names() -> list[str]:
        return sorted(name for home in homes for name in import_module(f".{home}", room).__all__)

    def load(name: str) -> Any:
        value: Any = names() if name == "__all__" else None
        for home in () if name.startswith("_") else homes:
            module = import_module(f".{home}", room)
            if name in module.__all__:
                value = getattr(module, name)
                break
        if value is None:
            raise _missing(room, name)
        setattr(sys.modules[room], name, value)
        return value

    return lambda: sorted({*vars(sys.modules[room]), *names()}), load
