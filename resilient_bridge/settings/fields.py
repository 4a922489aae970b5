"""Reads one field of a value: durations, sizes, schedules, failures, nested values, names of
functions.

Rule: the kind of the field alone selects its reader. A value that is already parsed is returned as
it is, and the field's validator checks it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import attrs

from ..config.paths import joined
from ..config.quantities import DURATION, SIZE, read_bytes, read_seconds, read_span
from ..failure import ConfigError
from ..values.backoff import Backoff, parse_schedule
from ..values.fields import LONGEST, is_number
from ..values.forms import PLAIN, Form, form_of
from .failure_words import read_what
from .reading import BAD, MASKED, Entry, Reading, violation_of
from .walk import arrange, default_of, entries_of, fields_of


_FIELD: Final = re.compile(r"\w+\.(\w+)(.*)", re.DOTALL)


def read_value(kind: type, data: Any, path: str, reading: Reading, base: Any = None) -> Any:
    """Return a value of class `kind`, with missing fields from `base`; BAD after a problem, which
    is noted.
    """
    if isinstance(data, kind):
        return data
    special = reading.readers.get(kind)
    if special is not None:
        return special(data, path, reading, base)
    entries = entries_of(kind, data, path, reading)
    if entries is None:
        return reading.fail(path, "a table of settings", data)
    return make(kind, entries, path, reading, base=base)


def make(
    kind: type, entries: Mapping[str, Entry], path: str, reading: Reading, *, base: Any = None
) -> Any:
    """Read, convert and validate each field, and return the value, with missing fields from `base`;
    BAD after a problem.
    """
    blank = cast("Any", object.__new__(kind))
    before = len(reading.problems)
    bad = _fill(kind, blank, entries, path, reading, base)
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
        return _refused(error, "", entries, path, reading)


def _fill(  # noqa: PLR0917 -- as `make`
    kind: type, blank: Any, entries: Mapping[str, Entry], path: str, reading: Reading, base: Any
) -> set[str]:
    """Set every field, converted; return the names of those that could not be read."""
    bad: set[str] = set()
    for field in fields_of(kind):
        value = default_of(field) if base is None else getattr(base, field.name)
        if field.name in entries:
            one = entries[field.name]
            at = joined(path, one.key)
            read_one = read_field(field, one.value, at, reading, None if base is None else value)
            value = _converted(field, read_one, one.value, at, reading)
        elif value is attrs.NOTHING:
            value = reading.fail(joined(path, field.name), form_of(field.validator).wanted, value)
        if value is BAD:
            bad.add(field.name)
            value = default_of(field)
        object.__setattr__(blank, field.name, None if value is attrs.NOTHING else value)
    return bad


def _converted(
    field: attrs.Attribute[Any], value: Any, written: Any, path: str, reading: Reading
) -> Any:
    convert = cast("Callable[[Any], Any] | None", field.converter)  # pyright: ignore[reportUnknownMemberType]
    if convert is None or value is BAD:
        return value
    try:
        return convert(value)
    except Exception:  # noqa: BLE001 -- a converter returns most bad values unchanged, but may raise on a wrong type
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
        if (
            field.name in entries or is_alone
        ):  # a default may be refused only because another field is bad
            _refused(error, field.name, entries, path, reading, form=form)
    except Exception:  # noqa: BLE001 -- it compared values of types that have no order
        if is_alone:
            reading.fail(joined(path, field.name), form.wanted or "another value", value)


def _refused(
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
    # the error names no key of the document, but an argument of a constructor, or another field
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


def read_field(
    field: attrs.Attribute[Any], raw: Any, path: str, reading: Reading, base: Any
) -> Any:
    """Read the raw value of a field by the field's kind; return it as it is if the kind needs no
    reading.
    """
    form = form_of(field.validator)
    if raw is BAD or raw is None:
        return raw
    if raw is False and form.kind not in {"flag", "plain", "functions"}:
        return None  # TOML has no null
    if form.kind == "text" and isinstance(raw, int | float) and path in reading.texts:
        return reading.texts[path]
    if form.kind == "count" and field.name.endswith("bytes") and isinstance(raw, str):
        return _text(raw, read_bytes, SIZE, path, reading)
    read = _READERS.get(form.kind)
    return raw if read is None else read(form, raw, path, reading, base)


def _text(raw: str, read: Callable[[str], Any], wanted: str, path: str, reading: Reading) -> Any:
    try:
        return read(raw)
    except ValueError:
        return reading.fail(path, wanted, raw)


def _each(raw: Any, path: str, read: Callable[[Any, str], Any]) -> Any:
    items = [read(item, joined(path, index)) for index, item in enumerate(raw)]
    return BAD if any(item is BAD for item in items) else items


def _seconds(form: Form, raw: Any, path: str, reading: Reading, _: Any) -> Any:
    if isinstance(raw, list | tuple):
        items = _each(raw, path, lambda item, at: _seconds(form, item, at, reading, None))
        return items if items is BAD else tuple(items)
    return _text(raw, read_seconds, DURATION, path, reading) if isinstance(raw, str) else raw


def _span(_: Form, raw: Any, path: str, reading: Reading, __: Any) -> Any:
    if not isinstance(raw, str):
        return raw
    return _text(
        raw, read_span, 'a number of calls, or a span of time such as "60s"', path, reading
    )


def _wait(_: Form, raw: Any, path: str, reading: Reading, base: Any) -> Any:
    if isinstance(raw, str) and raw in reading.names:
        return reading.names[raw]
    if callable(raw) or not (isinstance(raw, Mapping | str) or _is_wait(raw)):
        return raw  # pyright: ignore[reportUnknownVariableType] -- for the validator
    return read_backoff(raw, path, reading, base)


def read_backoff(data: Any, path: str, reading: Reading, base: Any = None) -> Any:
    """Return the schedule of a text as in code, a duration or a table; BAD after a problem."""
    if isinstance(data, Mapping):
        table = dict(cast("Mapping[str, Any]", data))
        changed = base if isinstance(base, Backoff) and "shape" not in table else None
        entries = arrange(Backoff, table, path, reading)
        return make(Backoff, entries, path, reading, base=changed)
    if isinstance(data, str):
        return _schedule(data, path, reading)
    if _is_wait(data):
        return Backoff.constant(data)
    return reading.fail(path, 'a schedule such as "exponential(1, cap=30)"', data)


def _is_wait(raw: Any) -> bool:
    return is_number(raw) and 0 <= raw <= LONGEST


def _schedule(text: str, path: str, reading: Reading) -> Any:
    try:
        return parse_schedule(text)
    except ConfigError as error:
        problem = violation_of(error)
        argument = str(problem["field"]).removeprefix("Backoff.")
        return reading.fail(path, f"{argument} to be {problem['constraint']}", text)
    except ValueError as error:
        hint = reading.near(text.partition("(")[0], reading.names)
        return reading.fail(
            path, f'a schedule such as "exponential(1, cap=30)" ({error})', text, hint=hint
        )


def _value(form: Form, raw: Any, path: str, reading: Reading, base: Any) -> Any:
    kind = cast("type", form.of)
    return read_value(kind, raw, path, reading, base if isinstance(base, kind) else None)


def _values(form: Form, raw: Any, path: str, reading: Reading, _: Any) -> Any:
    if not isinstance(raw, list | tuple):
        return reading.fail(path, form.wanted, raw)
    return _each(raw, path, lambda item, at: read_value(cast("type", form.of), item, at, reading))


def _whats(_: Form, raw: Any, path: str, reading: Reading, __: Any) -> Any:
    if isinstance(raw, list | set | frozenset):
        return _each(raw, path, lambda item, at: read_what(item, at, reading))
    what = read_what(raw, path, reading)
    return what if what is BAD else [what]


def _rules(form: Form, raw: Any, path: str, reading: Reading, base: Any) -> Any:
    table = reading.table(raw, path, form.wanted)
    if table is None:
        return BAD
    rules: dict[Any, Any] = dict(base or {})
    has_bad = False
    for key, data in table.items():
        at = joined(path, str(key))
        what = read_what(key, at, reading)
        rule = None if data is False else read_value(cast("type", form.of), data, at, reading)
        if BAD in (what, rule):
            has_bad = True
        elif rule is None:
            rules.pop(what, None)
        else:
            rules[what] = rule
    return BAD if has_bad else rules


def _function(form: Form, raw: Any, path: str, reading: Reading, _: Any) -> Any:
    return reading.named(raw, path, form.wanted.removesuffix(", or None"))


def _functions(_: Form, raw: Any, path: str, reading: Reading, __: Any) -> Any:
    if isinstance(raw, bool):
        return raw
    return _each(
        raw if isinstance(raw, list | tuple) else [raw],
        path,
        lambda item, at: reading.named(item, at, "a function"),
    )


def _by_name(
    form: Form, raw: Any, path: str, reading: Reading, read: Callable[[str, Any, str], Any]
) -> Any:
    """Return a table with each value read; `read` takes its name, raw value and path."""
    table = reading.table(raw, path, form.wanted)
    if table is None:
        return BAD
    found = {name: read(name, item, joined(path, name)) for name, item in table.items()}
    return BAD if any(each is BAD for each in found.values()) else found


def _seconds_by_name(form: Form, raw: Any, path: str, reading: Reading, _: Any) -> Any:
    return _by_name(
        form, raw, path, reading, lambda _, item, at: _seconds(form, item, at, reading, None)
    )


def _policies(form: Form, raw: Any, path: str, reading: Reading, base: Any) -> Any:
    below: Mapping[str, Any] = base or {}

    def read(name: str, item: Any, at: str) -> Any:
        return read_value(cast("type", form.of), item, at, reading, below.get(name))

    found = _by_name(form, raw, path, reading, read)
    return found if found is BAD else {**below, **found}


_READERS: Final[Mapping[str, Callable[[Form, Any, str, Reading, Any], Any]]] = {
    "seconds": _seconds,
    "span": _span,
    "wait": _wait,
    "value": _value,
    "values": _values,
    "whats": _whats,
    "rules": _rules,
    "function": _function,
    "functions": _functions,
    "policies": _policies,
    "seconds_by_name": _seconds_by_name,
}
