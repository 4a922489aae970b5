"""Writes any value of this package as plain data that `load` reads back as an equal value.

Rule: what differs from the defaults is written, and nothing is omitted silently: a value without a
text form is refused with its path.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, cast

import attrs

from ..calls.policy import Policy
from ..client.arguments import shown
from ..config.paths import joined
from ..config.quantities import write_span
from ..failure import config_error
from ..protocol.policies.dialect import Dialect
from ..transports.references import Headers, Secret
from ..values.backoff import Backoff, parse_schedule
from ..values.fields import Value
from ..values.forms import form_of
from .dialect_names import ready
from .failure_words import write_what
from .policy_tables import LAYERS, NAMES
from .walk import default_of, fields_of


@attrs.frozen
class Writer:
    """Writes values as plain data: `names` are the caller's, `is_full` writes defaults too.

    With `is_print`, a value without a text form is shown by its name, and a URL is written without
    its query, which may hold a secret. With `is_bare`, the query is kept: that result is only
    compared, and never shown.
    """

    names: Mapping[str, Any]
    is_full: bool = False
    is_print: bool = False
    is_bare: bool = False

    def write(self, value: Any, path: str) -> Any:
        """Return plain data for a value."""
        if isinstance(value, Policy):
            return self._policy(value, path)
        if isinstance(value, Backoff):
            return self._schedule(value, path)
        if isinstance(value, Dialect):
            name = next((name for name, each in ready().items() if each == value), None)
            return self._table(value, path) if name is None else name
        if isinstance(value, Secret):
            return value.reference
        if isinstance(value, Headers):
            return {name: self.write(text, joined(path, name)) for name, text in value.entries}
        if isinstance(value, Value):
            return self._table(value, path)
        return self._plain(value, path)

    def _plain(self, value: Any, path: str) -> Any:
        if value is None:
            return None if self.is_print else False  # TOML has no null
        if isinstance(value, timedelta):
            return write_span(value)
        if isinstance(value, tuple | list):
            items = cast("tuple[Any, ...]", value)
            return [self.write(item, joined(path, n)) for n, item in enumerate(items)]
        if isinstance(value, Mapping):
            table = cast("Mapping[str, Any]", value)
            return {key: self.write(item, joined(path, key)) for key, item in table.items()}
        if isinstance(value, bool | int | float | str):
            return value
        named = next((name for name, each in self.names.items() if each is value), None)
        if named is not None:
            return named
        return self._unsaid(value, path, "something that settings can say, or one of names=")

    def _unsaid(self, value: Any, path: str, wanted: str) -> str:
        if not self.is_print:
            raise config_error(path, wanted, value)
        return f"<{getattr(value, '__qualname__', type(value).__qualname__)}>"

    def _table(self, value: Any, path: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for field in fields_of(value.__class__):
            item = getattr(value, field.name)
            if not self.is_full and _is_same(item, default_of(field)):
                continue
            at, kind = joined(path, field.name), form_of(field.validator).kind
            if kind == "whats":
                found[field.name] = [self._what(each, joined(at, n)) for n, each in enumerate(item)]
            elif kind == "rules":
                rules = [(str(self._what(what, at)), rule) for what, rule in item.items()]
                found[field.name] = {
                    what: self.write(rule, joined(at, what)) for what, rule in rules
                }
            elif kind == "address" and self.is_print and not self.is_bare and isinstance(item, str):
                found[field.name] = shown(item)
            else:
                found[field.name] = self.write(item, at)
        return found

    def _what(self, what: Any, path: str) -> Any:
        written = write_what(what, self.names)
        if written is None:
            return self._unsaid(what, path, "a failure that settings can say, or one of names=")
        return written

    def _schedule(self, schedule: Backoff, path: str) -> Any:
        """Return it as in code, or as a table if no constructor makes it."""
        text = repr(schedule).replace("Backoff.", "")
        try:
            if parse_schedule(text) == schedule:
                return text
        except ValueError:  # too long, or too deep
            pass
        return {
            field.name: self.write(getattr(schedule, field.name), path)
            for field in fields_of(Backoff)
        }

    def _policy(self, policy: Policy, path: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for layer in policy.layers:
            key = NAMES[type(layer)]
            found[key] = self._table(layer, joined(path, key))
        order = list(found)
        if order != [key for key in LAYERS if key in order]:
            found["order"] = order
        if policy.name is not None:
            found["name"] = policy.name
        if policy.state is not None:
            wanted = "None: the URL of a state may hold a secret, so write it yourself as env:NAME"
            found["state"] = self._unsaid(policy.state, joined(path, "state"), wanted)
        return found


def _is_same(value: Any, default: Any) -> bool:
    """Return whether a value is the default: equal, and of its class."""
    return type(value) is type(default) and value == default
