"""Plain data to any attrs value, by the value's own fields, converters and validators.

Rule: no field is known here. A validator says what its field takes (`values.forms`), and judges it.
The walk adds the path and the nearest word, and reports every problem, not only the first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, cast

import attrs

from ..config.paths import joined
from ..errors import ConfigError
from ..values.forms import PLAIN, Form, form_of
from .reading import BAD, MASKED, Entry, Reading, violation_of


_MILLIS: Final = "_ms"
_FIELD: Final = re.compile(r"\w+\.(\w+)(.*)", re.DOTALL)


def entries_of(kind: type, data: Any, path: str, reading: Reading) -> dict[str, Entry] | None:
    """Return what was written for each field.

    Written may be a table, true for all defaults, or the one argument that the value is named for.
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
    """Return what was written for each field under any of its keys: its name, its name with `_ms`, or a specification's word."""
    fields = {field.name: form_of(field.validator) for field in fields_of(kind)}
    alias = reading.aliases.get(kind)
    found = {} if alias is None else alias(table, path, reading)
    for key, raw in table.items():
        name, value = key, raw
        if key not in fields:
            name = key.removesuffix(_MILLIS)
            if name == key or name not in fields or fields[name].kind != "seconds":
                reading.unknown(path, key, fields)
                continue
            value = _all_from_millis(raw, joined(path, key), reading)
        if name in found:
            reading.fail(joined(path, key), f"{name} once", f"{found[name].key} and {key}")
        else:
            found[name] = Entry(key, value)
    return found


def _all_from_millis(raw: Any, path: str, reading: Reading) -> Any:
    """Return the value of a field with `_ms`: one duration, or, where the field takes several, a list of them."""
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


Read: TypeAlias = "Callable[[attrs.Attribute[Any], Any, str, Reading, Any], Any]"


def make(
    kind: type, entries: Mapping[str, Entry], path: str, reading: Reading, *, read: Read, base: Any = None
) -> Any:
    """Return the value, laid over `base`, after each field has been read, converted and validated; BAD after a problem."""
    blank = cast("Any", object.__new__(kind))
    before = len(reading.problems)
    bad = _fill(kind, blank, entries, path, reading, read=read, base=base)
    for field in fields_of(kind):
        if field.name not in bad:
            _validate(blank, field, entries, path, reading, is_alone=not bad)
    if len(reading.problems) > before or bad:
        return BAD
    values = {field.name: getattr(blank, field.name) for field in fields_of(kind)}
    try:
        if hasattr(kind, "__attrs_init__"):  # its own constructor takes the first field by position
            first = next(iter(values))
            return kind(*values.pop(first), **values)
        return kind(**values)
    except ConfigError as error:
        return refused(error, "", entries, path, reading)


def _fill(
    kind: type,
    blank: Any,
    entries: Mapping[str, Entry],
    path: str,
    reading: Reading,
    *,
    read: Read,
    base: Any,
) -> set[str]:
    """Set every field, converted; return the names of those that could not be read."""
    bad: set[str] = set()
    for field in fields_of(kind):
        value = default_of(field) if base is None else getattr(base, field.name)
        if field.name in entries:
            one = entries[field.name]
            at = joined(path, one.key)
            read_one = read(field, one.value, at, reading, None if base is None else value)
            value = _converted(field, read_one, one.value, at, reading)
        elif value is attrs.NOTHING:
            value = reading.fail(joined(path, field.name), form_of(field.validator).wanted, value)
        if value is BAD:
            bad.add(field.name)
            value = default_of(field)
        object.__setattr__(blank, field.name, None if value is attrs.NOTHING else value)
    return bad


def _converted(field: attrs.Attribute[Any], value: Any, written: Any, path: str, reading: Reading) -> Any:
    convert = cast("Callable[[Any], Any] | None", field.converter)  # pyright: ignore[reportUnknownMemberType]
    if convert is None or value is BAD:
        return value
    try:
        return convert(value)
    except Exception:  # noqa: BLE001 -- a converter hands bad values through, and may stumble over a wrong shape
        return reading.fail(path, form_of(field.validator).wanted or "another form", written)


def _validate(
    blank: Any,
    field: attrs.Attribute[Any],
    entries: Mapping[str, Entry],
    path: str,
    reading: Reading,
    *,
    is_alone: bool,
) -> None:
    if field.validator is None:
        return
    form, value = form_of(field.validator), getattr(blank, field.name)
    try:
        cast("Callable[[Any, Any, Any], Any]", field.validator)(blank, field, value)
    except ConfigError as error:
        if field.name in entries or is_alone:  # beside a bad field, a default may only seem wrong
            refused(error, field.name, entries, path, reading, form=form)
    except Exception:  # noqa: BLE001 -- compared with something that cannot be compared
        if is_alone:
            reading.fail(joined(path, field.name), form.wanted or "another value", value)


def refused(
    error: ConfigError,
    name: str,
    entries: Mapping[str, Entry],
    path: str,
    reading: Reading,
    *,
    form: Form = PLAIN,
) -> Any:
    """Note what a constructor or a validator refused, under the path where it was written."""
    problem = violation_of(error)
    found = _FIELD.fullmatch(str(problem["field"]))
    about, rest = (found[1], found[2]) if found else ("", "")
    # the error names an argument of a constructor, or a field beside it
    if about not in entries and name:
        about = name
    at = joined(path, entries[about].key if about in entries else about) if about else path
    written: Any = problem["received"]
    if about in entries and not rest and written != MASKED:
        raw = entries[about].value
        written = written if form.kind == "address" and _may_hold_a_secret(raw) else raw
    return reading.fail(
        at + rest, str(problem["constraint"]), written, hint=reading.near(written, form.words)
    )


def _may_hold_a_secret(url: Any) -> bool:
    """Return whether a URL has more than scheme, host and path: then an error shows only these."""
    return isinstance(url, str) and not {"@", "?", "#"}.isdisjoint(url)
