"""What each field of a value takes in settings, and how a whole value is read from plain data.

Rule: nobody marks a field. Its kind follows from the annotation of the constructor's argument, so
what a constructor takes is what settings take; its validator says what it wants, and checks it. A
kind is one row: how it is read, its JSON Schema, how it is written, and its words for the reference.
This module knows no field by name, and reports every problem, not only the first.
"""

from __future__ import annotations

import builtins
import collections.abc
import re
import sys
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import timedelta
from functools import cache
from types import UnionType
from typing import Any, Final, ForwardRef, Literal, NamedTuple, TypeAlias, Union, cast

import attrs

from ..config.documents import joined
from ..config.texts import DURATION, SIZE, read_bytes, read_seconds, read_span
from ..failure import ConfigError
from ..transports.references import Headers, Secret
from ..values.backoff import Backoff, parse_schedule
from ..values.fields import LONGEST, Value, is_number, wanted_by
from ..values.rule import Rule
from .failure_words import read_what
from .reading import BAD, MASKED, Entry, Reading, violation_of


_FIELD: Final = re.compile(r"\w+\.(\w+)(.*)", re.DOTALL)
_MILLIS: Final = "_ms"
Refer: TypeAlias = "Callable[[type], dict[str, Any]]"
"""Returns the schema of a class, as a reference to its definition."""
Write: TypeAlias = "Callable[[Any, str], Any]"
"""Returns plain data for a value with this path."""


@attrs.frozen(eq=False)
class FieldKind:
    """What fields with the same sort of annotation take.

    `words` are for a person, with `{}` for the class of a nested value. `schema` is the JSON Schema.
    `read` returns the value of what was written, BAD after a problem; without it the validator gets
    what was written. `write` returns plain data; its third argument writes a failure, the fourth
    any other value. `has_false`: false is a value; in other fields it says None, which TOML has not.
    """

    words: str
    schema: Callable[[Form, Refer], dict[str, Any]]
    read: Callable[[Form, Any, str, Reading, Any], Any] | None = None
    write: Callable[[Any, str, Write, Write], Any] | None = None
    has_false: bool = False


class Form(NamedTuple):
    """What one field takes: `of` is the class of a nested value, `words` are those of a Literal,
    `wanted` is the text of its validator, for a person.
    """

    kind: FieldKind
    wanted: str = ""
    of: type = object
    words: tuple[str, ...] = ()
    is_optional: bool = False


# ---- the readers of the kinds ----------------------------------------------------------------------------------------


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


def _bytes(_: Form, raw: Any, path: str, reading: Reading, __: Any) -> Any:
    return _text(raw, read_bytes, SIZE, path, reading) if isinstance(raw, str) else raw


def _as_text(_: Form, raw: Any, path: str, reading: Reading, __: Any) -> Any:
    return reading.texts.get(path, raw) if isinstance(raw, int | float) else raw


def _key(form: Form, raw: Any, path: str, reading: Reading, base: Any) -> Any:
    # of the names that are there: those of the command `check` make up whatever they are asked for
    found = dict(reading.names).get(raw) if isinstance(raw, str) else None
    is_name = not callable(found) or isinstance(found, type)  # a class is one of failures
    return _as_text(form, raw, path, reading, base) if is_name else found


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
    return read_value(form.of, raw, path, reading, base if isinstance(base, form.of) else None)


def _values(form: Form, raw: Any, path: str, reading: Reading, _: Any) -> Any:
    if not isinstance(raw, list | tuple):
        return reading.fail(path, form.wanted, raw)
    return _each(raw, path, lambda item, at: read_value(form.of, item, at, reading))


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
        rule = None if data is False else read_value(form.of, data, at, reading)
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
    def read(_: str, item: Any, at: str) -> Any:
        return _seconds(form, item, at, reading, None)

    return _by_name(form, raw, path, reading, read)


def _functions_by_name(form: Form, raw: Any, path: str, reading: Reading, _: Any) -> Any:
    def read(_: str, item: Any, at: str) -> Any:
        return reading.named(item, at, "a function")

    return _by_name(form, raw, path, reading, read)


def _values_by_name(form: Form, raw: Any, path: str, reading: Reading, base: Any) -> Any:
    below: Mapping[str, Any] = base or {}

    def read(name: str, item: Any, at: str) -> Any:
        return read_value(form.of, item, at, reading, below.get(name))

    found = _by_name(form, raw, path, reading, read)
    return found if found is BAD else {**below, **found}


# ---- the writers of the kinds ----------------------------------------------------------------------------------------


def _write_whats(items: Any, path: str, what: Write, _: Write) -> Any:
    return [what(each, joined(path, n)) for n, each in enumerate(items)]


def _write_rules(rules: Any, path: str, what: Write, value: Write) -> Any:
    written = [(str(what(key, path)), rule) for key, rule in rules.items()]
    return {key: value(rule, joined(path, key)) for key, rule in written}


# ---- the kinds -------------------------------------------------------------------------------------------------------


def _schema(**schema: Any) -> Callable[[Form, Refer], dict[str, Any]]:
    return lambda _, __: schema


def _of_table(form: Form, refer: Refer) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": {"anyOf": [refer(form.of), {"const": False}]},
    }


_TEXTUAL: Final = _schema(type="string")

AS_WRITTEN: Final = FieldKind("", _schema(), has_false=True)
"""Plain data that the validator alone judges."""
SECONDS: Final = FieldKind("a duration", _schema(type=["number", "string", "array"]), _seconds)
SPAN: Final = FieldKind(
    "a number of calls, or a span of time", _schema(type=["integer", "string"]), _span
)
NUMBER: Final = FieldKind("a number", _schema(type="number"))
COUNT: Final = FieldKind("a whole number", _schema(type=["integer", "string"]))
BYTES: Final = FieldKind('a whole number, or a size such as `"8MiB"`', COUNT.schema, _bytes)
FLAG: Final = FieldKind("`true` or `false`", _schema(type="boolean"), has_false=True)
WORD: Final = FieldKind("one of its words", lambda form, _: {"enum": list(form.words)})
TEXT: Final = FieldKind("a text", _TEXTUAL, _as_text)
KEY: Final = FieldKind("a name, or the name of a function", _TEXTUAL, _key)
TEXTS: Final = FieldKind("a list", _schema(type="array"))
PAIR: Final = FieldKind("two numbers, warning and critical", _schema(type="array"))
VALUE: Final = FieldKind(
    "{}", lambda form, refer: {"anyOf": [refer(form.of), {"const": True}]}, _value
)
VALUES: Final = FieldKind(
    "a list, each {}", lambda form, refer: {"type": "array", "items": refer(form.of)}, _values
)
VALUES_BY_NAME: Final = FieldKind("a table of {} by name", _of_table, _values_by_name)
SECONDS_BY_NAME: Final = FieldKind("a table of durations by name", _schema(), _seconds_by_name)
WAIT: Final = FieldKind("a schedule", _schema(type=["string", "number", "object"]), _wait)
WHATS: Final = FieldKind(
    "a failure, or a list of them",
    _schema(type=["string", "integer", "object", "array"]),
    _whats,
    _write_whats,
)
RULES: Final = FieldKind(
    "a table: a failure, and its [rule](#rule)", _of_table, _rules, _write_rules
)
FUNCTION: Final = FieldKind("the name of a function", _TEXTUAL, _function)
FUNCTIONS: Final = FieldKind(
    "names of functions", _schema(type=["string", "array", "boolean"]), _functions, has_false=True
)
FUNCTIONS_BY_NAME: Final = FieldKind(
    "a table of names of functions, by name",
    _schema(type="object", additionalProperties={"type": "string"}),
    _functions_by_name,
)
SECRET: Final = FieldKind("`env:NAME` or `file:PATH`", _TEXTUAL)
ADDRESS: Final = FieldKind("a `ws://` or `wss://` URL, or `env:NAME`", _TEXTUAL)
HEADERS: Final = FieldKind(
    "a table of texts; secrets as `env:NAME`",
    _schema(type="object", additionalProperties={"type": "string"}),
)


_ANY: Final = Form(AS_WRITTEN)


# ---- from an annotation to its kind ----------------------------------------------------------------------------------


class _Seconds:
    """Stands for the alias `Seconds`, which is not taken apart."""


class _What:
    """Stands for the alias `What`."""


class _StateKey:
    """Stands for the alias `StateKey`."""


class _Address:
    """Stands for the alias `Address`, the URL of a client."""


class _Unknown:
    """Stands for a name that only a type checker sees: no setting can say such a value."""

    def __class_getitem__(cls, _: Any) -> type[_Unknown]:
        return cls


_ALIASES: Final[Mapping[str, Any]] = {
    "Address": _Address,
    "Backoff": Backoff,
    "Rule": Rule,
    "Seconds": _Seconds,
    "StateKey": _StateKey | None,
    "WaitSchedule": Backoff | Callable[..., Any],
    "What": _What,
}
"""What names mean here, wherever the module of a value has them from: many only for type checkers."""
_ALONE: Final[Mapping[Any, FieldKind]] = {
    _Address: ADDRESS, _Seconds: SECONDS, _StateKey: KEY, _What: WHATS, Headers: HEADERS, Secret: SECRET,
    bool: FLAG, float: NUMBER, int: COUNT, str: TEXT,
}  # fmt: skip
"""The kinds of annotations that are one class."""


class _Names(dict[str, Any]):
    """The names that an annotation may use: those of its module, and what it has for checkers only."""

    def __missing__(self, name: str) -> Any:
        for each in (collections.abc, typing, builtins):
            if hasattr(each, name):
                return getattr(each, name)
        return _Unknown

    def __getitem__(self, name: str) -> Any:
        found = _ALIASES[name] if name in _ALIASES else super().__getitem__(name)
        return self.meaning(found) if isinstance(found, str) else found

    def meaning(self, annotation: Any) -> Any:
        text = annotation.__forward_arg__ if isinstance(annotation, ForwardRef) else annotation
        return eval(text, {}, self) if isinstance(text, str) else text  # noqa: S307 -- of our own classes

    def parts(self, annotation: Any) -> Iterator[Any]:
        """The members of a union, or the annotation alone."""
        found = self.meaning(annotation)
        if typing.get_origin(found) in {Union, UnionType}:
            for part in typing.get_args(found):
                yield from self.parts(part)
        else:
            yield found


@cache
def forms_of(kind: type) -> Mapping[str, Form]:
    """Return what each field of a value takes, by its name.

    A converter may take more than the field holds, so its argument's annotation decides, and the
    field's own where that is Any. What only the validator knows (another annotation, or one without
    a text of what it wants) is taken as it was written.
    """
    made_by = getattr(kind, "__attrs_init__", cast("Any", kind).__init__)
    names = _Names(vars(sys.modules[kind.__module__]))
    found: dict[str, Form] = {}
    for field in fields_of(kind):
        parts = [*names.parts(made_by.__annotations__.get(field.name, Any))]
        parts = [*names.parts(field.type)] if parts == [Any] else parts
        form = _form(parts, wanted_by(field.validator))
        if form.kind is COUNT and field.name.endswith("bytes"):
            form = form._replace(kind=BYTES)
        found[field.name] = form._replace(is_optional=type(None) in parts)
    return found


def _form(parts: list[Any], wanted: str) -> Form:
    known = [part for part in parts if part not in {type(None), _Unknown}]
    items = [
        typing.get_args(part)[0] if typing.get_origin(part) in {tuple, Collection} else part
        for part in known
    ]
    if not wanted:
        return _ANY
    if _What in items:
        return Form(WHATS, wanted)
    if Backoff in known and len(parts) > 1:
        return Form(WAIT, wanted)
    if _Seconds in items:
        return Form(SECONDS, wanted)
    if timedelta in known:
        return Form(SPAN, wanted)
    if any(typing.get_origin(item) is Callable for item in items):
        return Form(FUNCTION if known == items else FUNCTIONS, wanted)
    if len(known) > 1 and Secret in known:  # a text that may refer to a secret
        known.remove(Secret)
    return _form_alone(known[0], wanted) if len(known) == 1 else Form(AS_WRITTEN, wanted)


def _form_alone(part: Any, wanted: str) -> Form:
    """Return the form of an annotation that is no union."""
    if part in _ALONE:
        return Form(_ALONE[part], wanted)
    if isinstance(part, type) and issubclass(part, Value):
        return Form(VALUE, wanted, part)
    origin, args = typing.get_origin(part), typing.get_args(part)
    if origin is Literal and all(isinstance(word, str) for word in args):
        return Form(WORD, f"one of {', '.join(args)}", words=args)
    if origin is tuple:
        if args == (float, float):
            return Form(PAIR, wanted)
        is_value = isinstance(args[0], type) and issubclass(args[0], Value)
        return Form(VALUES, wanted, args[0]) if is_value else Form(TEXTS, wanted)
    if origin is Mapping:
        value = args[1]
        if value is _Seconds:
            return Form(SECONDS_BY_NAME, wanted)
        if typing.get_origin(value) is Callable:
            return Form(FUNCTIONS_BY_NAME, wanted)
        if isinstance(value, type) and issubclass(value, Value):
            return Form(RULES if value is Rule else VALUES_BY_NAME, wanted, value)
    return Form(AS_WRITTEN, wanted)


# ---- a value from a table --------------------------------------------------------------------------------------------


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
    fields = forms_of(kind)
    alias = reading.aliases.get(kind)
    found = {} if alias is None else alias(table, path, reading)
    for key, raw in table.items():
        name, value = key, raw
        if key not in fields:
            name = key.removesuffix(_MILLIS)
            if name == key or name not in fields or fields[name].kind is not SECONDS:
                reading.unknown(path, key, fields, kind.__name__)
                continue
            at = joined(path, key)
            if isinstance(raw, list):  # a field that takes several durations
                value = _each(raw, at, lambda item, at: from_millis(item, at, reading))
            else:
                value = from_millis(raw, at, reading)
        if name in found:
            reading.fail(joined(path, key), f"{name} once", f"{found[name].key} and {key}")
        else:
            found[name] = Entry(key, value)
    return found


def from_millis(raw: Any, path: str, reading: Reading) -> Any:
    """Return milliseconds as seconds; BAD for a value that is no number."""
    try:
        if isinstance(raw, int | float) and not isinstance(raw, bool):
            return raw / 1000
    except OverflowError:
        pass
    return reading.fail(path, "milliseconds as a number", raw)


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
    return _Making(kind, entries, path, reading).value(base)


@attrs.frozen
class _Making:
    """One value that is made of what was written for its fields."""

    kind: type
    entries: Mapping[str, Entry]
    path: str
    reading: Reading

    def value(self, base: Any) -> Any:
        kind = self.kind
        blank = cast("Any", object.__new__(kind))
        before = len(self.reading.problems)
        bad = self._fill(blank, base)
        for field in fields_of(kind):
            if field.name not in bad and field.validator is not None:
                self._validate(blank, field, is_alone=not bad)
        if len(self.reading.problems) > before or bad:
            return BAD
        values = {field.name: getattr(blank, field.name) for field in fields_of(kind)}
        try:
            if hasattr(
                kind, "__attrs_init__"
            ):  # its own constructor takes the first field by position
                first = next(iter(values))
                return kind(*values.pop(first), **values)
            return kind(**values)
        except ConfigError as error:
            return self._refused(error)

    def _fill(self, blank: Any, base: Any) -> set[str]:
        """Set every field, converted; return the names of those that could not be read."""
        bad: set[str] = set()
        for field in fields_of(self.kind):
            value = default_of(field) if base is None else getattr(base, field.name)
            if field.name in self.entries:
                value = self._read(field, None if base is None else value)
            elif value is attrs.NOTHING:
                wanted = forms_of(self.kind)[field.name].wanted
                value = self.reading.fail(joined(self.path, field.name), wanted, value)
            if value is BAD:
                bad.add(field.name)
                value = default_of(field)
            object.__setattr__(blank, field.name, None if value is attrs.NOTHING else value)
        return bad

    def _read(self, field: attrs.Attribute[Any], base: Any) -> Any:
        """Return what was written for a field, read by its kind and converted."""
        entry, form = self.entries[field.name], forms_of(self.kind)[field.name]
        path, value = joined(self.path, entry.key), entry.value
        if value is False and not form.kind.has_false:
            value = None
        if value is not BAD and value is not None and form.kind.read is not None:
            value = form.kind.read(form, value, path, self.reading, base)
        convert = cast("Callable[[Any], Any] | None", field.converter)  # pyright: ignore[reportUnknownMemberType]
        if convert is None or value is BAD:
            return value
        try:
            return convert(value)
        except Exception:  # noqa: BLE001 -- a converter returns most bad values unchanged, but may raise on a wrong type
            return self.reading.fail(path, form.wanted or "another form", entry.value)

    def _validate(self, blank: Any, field: attrs.Attribute[Any], *, is_alone: bool) -> None:
        form, value = forms_of(self.kind)[field.name], getattr(blank, field.name)
        try:
            cast("Callable[[Any, Any, Any], Any]", field.validator)(blank, field, value)
        except ConfigError as error:
            # a default may be refused only because another field is bad
            if field.name in self.entries or is_alone:
                self._refused(error, field.name, form)
        except Exception:  # noqa: BLE001 -- it compared values of types that have no order
            if is_alone:
                path = joined(self.path, field.name)
                self.reading.fail(path, form.wanted or "another value", value)

    def _refused(self, error: ConfigError, name: str = "", form: Form = _ANY) -> Any:
        """Note what a constructor or a validator refused, under the path where it was written."""
        problem = violation_of(error)
        found = _FIELD.fullmatch(str(problem["field"]))
        about, rest = (found[1], found[2]) if found else ("", "")
        # the error names no key of the document, but an argument of a constructor, or another field
        if about not in self.entries and name:
            about = name
        entry = self.entries.get(about)
        at = joined(self.path, about if entry is None else entry.key) if about else self.path
        written: Any = problem["received"]
        if entry is not None and not rest and written != MASKED:
            # of a URL with more than scheme, host and path an error shows only these
            has_more = isinstance(entry.value, str) and not {"@", "?", "#"}.isdisjoint(entry.value)
            written = written if form.kind is ADDRESS and has_more else entry.value
        return self.reading.fail(
            at + rest,
            str(problem["constraint"]),
            written,
            hint=self.reading.near(written, form.words),
        )
