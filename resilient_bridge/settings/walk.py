"""Reads plain data into any attrs value, by the value's own fields, converters and validators.

Rule: this module knows no field by name. A validator says what its field takes (`values.forms`),
and checks it (`fields.make`). The walk adds the path and the nearest word, and reports every
problem, not only the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import attrs

from ..config.paths import joined
from ..values.forms import form_of
from .reading import BAD, Entry, Reading


_MILLIS: Final = "_ms"


def entries_of(kind: type, data: Any, path: str, reading: Reading) -> dict[str, Entry] | None:
    """Return the written setting of each field; None if `data` is of no accepted form.

    `data` may be a table, true for all defaults, or the value of the first field, if that field is
    positional.
    """
    if isinstance(data, Mapping):
        return arrange(kind, dict(cast("Mapping[str, Any]", data)), path, reading)
    if data is True:
        return {}
    first = fields_of(kind)[0]
    return None if first.kw_only or data is None or data is False else {first.name: Entry("", data)}


def fields_of(kind: type) -> list[attrs.Attribute[Any]]:
    """Return the fields that a value is made of."""
    return [field for field in attrs.fields(kind) if field.init]


def default_of(field: attrs.Attribute[Any]) -> Any:
    """Return the default of a field; NOTHING where it has none."""
    default: Any = field.default
    return default.factory() if isinstance(default, attrs.Factory) else default  # type: ignore[arg-type]


def arrange(kind: type, table: dict[str, Any], path: str, reading: Reading) -> dict[str, Entry]:
    """Return what was written for each field under any of its keys: its name, its name with `_ms`,
    or a specification's word.
    """
    fields = {field.name: form_of(field.validator) for field in fields_of(kind)}
    alias = reading.aliases.get(kind)
    found = {} if alias is None else alias(table, path, reading)
    for key, raw in table.items():
        name, value = key, raw
        if key not in fields:
            name = key.removesuffix(_MILLIS)
            if name == key or name not in fields or fields[name].kind != "seconds":
                reading.unknown(path, key, fields, kind.__name__)
                continue
            value = _all_from_millis(raw, joined(path, key), reading)
        if name in found:
            reading.fail(joined(path, key), f"{name} once", f"{found[name].key} and {key}")
        else:
            found[name] = Entry(key, value)
    return found


def _all_from_millis(raw: Any, path: str, reading: Reading) -> Any:
    """Return the value of a field with `_ms`: one duration, or, where the field takes several, a
    list of them.
    """
    if not isinstance(raw, list):
        return from_millis(raw, path, reading)
    items = [from_millis(item, joined(path, n), reading) for n, item in enumerate(cast("Any", raw))]
    return BAD if BAD in items else tuple(items)


def from_millis(raw: Any, path: str, reading: Reading) -> Any:
    """Return milliseconds as seconds; BAD for a value that is no number."""
    try:
        if isinstance(raw, int | float) and not isinstance(raw, bool):
            return raw / 1000
    except OverflowError:
        pass
    return reading.fail(path, "milliseconds as a number", raw)
