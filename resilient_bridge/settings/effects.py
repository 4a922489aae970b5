"""The table `effects`: what remembers the calls that must not run twice.

Rule: it is imported when its table stands in a document, as the file of the effects is SQLite's.
The defaults and the checks are those of `stores.Effects`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from inspect import signature
from typing import Any, Final

import attrs

from ..stores.effects import Effects
from ..values.fields import Value, as_seconds, as_tuple, flag, optional, some_seconds
from .tables import judged


_DEFAULTS: Final = {name: each.default for name, each in signature(Effects).parameters.items()}
_of_effects: Final = partial(judged, check=lambda name, value: Effects(**{name: value}))
_functions: Final = optional(_of_effects("a table of functions by name"))


@attrs.frozen(repr=False, eq=False)
class EffectSettings(Value):
    """The arguments of Effects: its file, how long a call in doubt holds identical ones, and which are.

    `ignore`, `key` and `verify` go by the name of a tool or a function. Without a path it is in
    memory, and holds nothing over a restart.
    """

    path: str | None = attrs.field(
        default=None, validator=optional(_of_effects("a path to a file, as ~/effects.db"))
    )
    hold: float = attrs.field(
        default=_DEFAULTS["hold"],
        converter=as_seconds,
        validator=some_seconds,
        kw_only=True,
    )
    scope: str = attrs.field(
        default=_DEFAULTS["scope"], validator=_of_effects("a text"), kw_only=True
    )
    results: bool = attrs.field(default=_DEFAULTS["results"], validator=flag, kw_only=True)
    ignore: Mapping[str, Any] | tuple[str, ...] = attrs.field(
        default=(),
        converter=as_tuple,
        validator=_of_effects("names of arguments, or a table of them by name"),
        kw_only=True,
    )
    key: Mapping[str, Callable[..., Any]] | None = attrs.field(
        default=None, validator=_functions, kw_only=True
    )
    verify: Mapping[str, Callable[..., Any]] | None = attrs.field(
        default=None, validator=_functions, kw_only=True
    )

    def make(self) -> Effects:
        """Return a new Effects with these; its file is opened with the first call."""
        return Effects(
            **{field.name: getattr(self, field.name) for field in attrs.fields(type(self))}
        )
