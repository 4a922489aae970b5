"""The strategies of the package, as the tests walk over them; none is listed here.

Rule: whoever tests every strategy takes them from here, so that a new one fails where something of it is missing.
"""

from __future__ import annotations

import re
from inspect import Parameter, signature
from typing import Any, Final

import resilient_bridge as rb
from tests.internals.calls import strategies


LAYERS: Final[tuple[type[rb.Layer], ...]] = tuple(
    sorted(strategies(), key=lambda kind: kind.usual_position)
)
"""The class of each strategy in the usual order, outermost first."""


def needed(kind: type) -> tuple[Any, ...]:
    """Return what a strategy cannot be made without: 1 for a field, and for a ladder and a key a function."""
    return tuple(
        len if each.kind is Parameter.VAR_POSITIONAL or each.name == "key" else 1
        for each in signature(kind).parameters.values()
        if each.default is Parameter.empty
    )


def page_of(kind: type) -> str:
    """Return the name of its page in docs/strategies."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower()
