"""`named`: an exception class of another package, by its name, without importing it.

Rule: it is compared and never imported: the top package and the name of the class, or of one of its
bases.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import attrs

from .codes import PREFIXES, near_code
from .exceptions import config_error
from .finding import package_of
from .teaching import taught


@attrs.frozen(repr=False)
class Named:
    """The classes of this name in this package; made by `named`."""

    package: str
    name: str

    def is_of(self, cls: type[Any]) -> bool:
        """Return whether it names this class; its bases are asked one by one."""
        return cls.__name__ == self.name and package_of(cls) == self.package

    def __repr__(self) -> str:
        """Return the call that makes it."""
        return f"named({self.package!r}, {self.name!r})"


@taught
def named(package: str, name: str, /) -> Named:
    """Return the exception class `name` of a package, for `on=`, `rules=`, `ignore=` and `register`.

        retry = rb.Retry(on=(rb.Kind.TRANSIENT, rb.named("httpx", "ReadTimeout")))

    The package is not imported, and need not be installed. Of the package only its top counts
    ("google" for google.genai). A subclass fits as well, whoever wrote it. Raises ConfigError for
    anything but two names.
    """
    _check("package", package, "the name of a package", "the top package")
    _check("name", name, "the name of a class", "the class alone")
    return Named(package, name)


def _check(field: str, text: Any, wanted: str, part: str) -> None:
    top = text.partition(".")[0] if isinstance(text, str) else ""
    if not top.isidentifier():
        raise config_error(
            f"named({field})", f'{wanted}, as in named("httpx", "ReadTimeout")', text
        )
    if top != text:
        raise config_error(f"named({field})", f"{part}, without a dot", text)


def meant(item: object, beside: object = None, words: Iterable[str] = ()) -> str:
    """Return what to write instead of an unknown name of a failure; empty if nobody can tell.

    `beside`: the collection that it is in. `words`: names besides our codes.
    """
    pair = _as_pair(item) or _as_pair(beside)
    if pair is not None:
        return (
            f"the name of a failure (a class of another package is named({pair[0]!r}, {pair[1]!r}))"
        )
    if not isinstance(item, str):
        return ""
    near = near_code(item, words)
    if near:
        return f"the name of a failure (did you mean {near}?)"
    own = "a code of this package, or your own after classify.register(…, code=…)"
    return own if item.startswith(tuple(PREFIXES)) else ""


def _as_pair(value: object) -> tuple[str, str] | None:
    """Return the package and class that two texts seem to be; None if they are anything else."""
    if not isinstance(value, tuple) or len(cast("tuple[object, ...]", value)) != 2:
        return None
    package, name = cast("tuple[object, object]", value)
    if not isinstance(package, str) or not isinstance(name, str):
        return None
    looks_so = package.isidentifier() and package.islower() and name.isidentifier()
    return (package, name) if looks_so and name[0].isupper() and name != name.upper() else None
