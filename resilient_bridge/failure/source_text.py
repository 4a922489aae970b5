"""Values as source text: what a person would write to get them."""

from __future__ import annotations

from datetime import timedelta
from enum import Enum
from types import FunctionType
from typing import cast


def shown(value: object) -> str:
    """Return `value` as source text: whole seconds without `.0`.

    Classes, functions and enum members by name.
    """
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, tuple):
        items = [shown(item) for item in cast("tuple[object, ...]", value)]
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
    if isinstance(value, timedelta):
        return f"timedelta(seconds={shown(value.total_seconds())})"
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, type | FunctionType):
        return value.__qualname__
    return repr(value)
