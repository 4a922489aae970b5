"""The secrets this client has used.

A server that echoes them cannot put them into our errors.

Patterns find `Bearer ...` and `token=...`, but not a value that looks like any other word. Here the
value is known.
"""

from __future__ import annotations

import base64
import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import attrs

from ..failure import MASK


if TYPE_CHECKING:
    from ..failure import Failure


_SHORTEST: Final = 4  # a shorter value would mask half of every sentence
_SHORTEST_PART: Final = 6  # of a cookie: "dark" and "true" are values, and words
_LONG: Final = 12  # a shorter one may be a part of longer words
_REMEMBERED: Final = 64
_PARTS: Final = re.compile(r"[;,]\s*")


class Secrets:
    """The last values used. Every Failure made from a server's text is masked by `mask`."""

    def __init__(self) -> None:
        self._values: OrderedDict[str, None] = OrderedDict()

    def learn(self, *values: str | None) -> None:
        """Remember values sent to a server: tokens, headers, cookies.

        Of a header with several parts each is a secret, too.
        """
        for value in values:
            if value is None or len(value) < _SHORTEST:
                continue
            for secret in (*_parts(value), value):
                self._values.pop(secret, None)
                self._values[secret] = None
        while len(self._values) > _REMEMBERED:
            self._values.popitem(last=False)

    def mask(self, failure: Failure) -> Failure:
        """Return `failure` without any of the values; the same object if none is in it."""
        parts = (failure.message, *failure.suggestions, repr(dict(failure.details)))
        if not any(value in part for value in self._values for part in parts):
            return failure
        return attrs.evolve(
            failure,
            message=self._masked(failure.message),
            suggestions=tuple(self._masked(text) for text in failure.suggestions),
            details=self._masked(dict(failure.details)),
        )

    def text(self, text: str) -> str:
        """Return `text` without any of the values."""
        return str(self._masked(text))

    def _masked(self, value: Any) -> Any:
        if isinstance(value, str):
            # a part must leave no rest of the whole value
            for secret in sorted(self._values, key=len, reverse=True):
                if secret in value:
                    value = _without(value, secret)
            return value
        if isinstance(value, (tuple, list)):
            return tuple(self._masked(part) for part in value)  # pyright: ignore[reportUnknownVariableType]
        if isinstance(value, dict):
            return {self._masked(key): self._masked(part) for key, part in value.items()}  # pyright: ignore[reportUnknownVariableType]
        return value


def _without(text: str, secret: str) -> str:
    """Return the text without a secret; one that is a word of letters is masked where it stands alone."""
    if len(secret) >= _LONG or not secret.isalpha():
        return text.replace(secret, MASK)
    return re.sub(rf"(?:(?<![^\W\d_])|(?<=\\[nrt])){re.escape(secret)}(?![^\W\d_])", MASK, text)


def _parts(header: str) -> list[str]:
    """Return what a server may echo of a header.

    Of `a=1; b=2` these are the values, of `Basic …` the password.
    """
    scheme, _, rest = header.partition(" ")
    parts = [rest.strip()]
    if scheme.lower() == "basic":
        parts += _user_and_password(rest)
    for part in _PARTS.split(header)[:_REMEMBERED]:
        name, sign, value = part.partition("=")
        if sign and name.strip():
            value = value.strip().strip('"')
            parts += (value, unquote(value))
    return [part for part in parts if len(part) >= _SHORTEST_PART]


def _user_and_password(encoded: str) -> list[str]:
    try:
        text = base64.b64decode(encoded, validate=True).decode()
    except ValueError:
        return []
    return [text, text.partition(":")[2]]
