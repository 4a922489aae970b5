"""What every reader of JSON here refuses, each with its own error text: invalid JSON, NaN and
infinities, a repeated key, too deep nesting.

Rule: no text is accepted that two readers could read differently, and none nested deeper than can
be written again.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import TYPE_CHECKING, Any, cast


if TYPE_CHECKING:
    from collections.abc import Callable


def decoder(*, constant: str, infinite: str, twice: str) -> json.JSONDecoder:
    """Return a decoder of strict JSON.

    It raises ValueError with these words for NaN and its like, for 1e400, and for a key that occurs
    twice; `{}` is what was read.
    """

    def no_constant(name: str) -> Any:
        raise ValueError(constant.format(name))

    def finite(text: str) -> float:
        value = float(text)
        if not math.isfinite(value):
            raise ValueError(infinite.format(text[:20]))
        return value

    return json.JSONDecoder(
        parse_constant=no_constant, parse_float=finite, object_pairs_hook=unique(twice)
    )


def unique(
    twice: str, error: type[ValueError] = ValueError
) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    """Return a function that makes an object of its pairs.

    It raises the error with these words for a key that occurs twice; `{}` is the key.
    """

    def made(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) != len(pairs):
            counts = Counter(name for name, _ in pairs)
            raise error(twice.format(next(name for name, count in counts.items() if count > 1)))
        return value

    return made


def is_deeper(value: Any, levels: int) -> bool:
    """Is what was read nested deeper than that?

    Far below the interpreter's limit, because it is written and compared deeper in the stack.
    """
    level: list[Any] = [value]
    for _ in range(levels):
        inner: list[Any] = []
        for part in level:
            if type(part) is dict:
                inner += cast("dict[str, Any]", part).values()
            elif type(part) is list:
                inner += part
        if not inner:
            return False
        level = inner
    return True
