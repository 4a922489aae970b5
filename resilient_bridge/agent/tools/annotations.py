"""The annotation of a tool's parameter: checks an argument, and becomes a JSON schema.

Rule: a plain annotation (str int float bool list dict None, unions of these, Literal) is checked
here. Any other one is checked by pydantic, if it is installed: strictly and as JSON, so "5" is no
integer, and "red" may be a member of an Enum. An annotation that neither can check (a class unknown
to pydantic, an undefined name, no pydantic) accepts every value.

A violation names the type of the received value, never the value: it may be a secret.
"""

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from itertools import chain
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    TypeAlias,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from ...failure import redact


Violations: TypeAlias = tuple[Mapping[str, str], ...]

NO_SUCH: Final = "no such argument"
NOTHING: Final = "nothing"
_MOST: Final = 20  # violations of one argument
_LONGEST: Final = 200  # characters of what a validator says


class _Plain(NamedTuple):
    """A plain JSON type: its name for messages, its schema, and a test for values."""

    words: str
    fits: Callable[[Any], bool]
    schema: Mapping[str, Any] = {}


def _is_a(kind: type | tuple[type, ...], value: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_one_of(choices: tuple[Any, ...], value: Any) -> bool:
    return any(value == one and type(value) is type(one) for one in choices)


_NULL: Final = _Plain("null", partial(_is_a, type(None)), {"type": "null"})
_PLAIN: Final[Mapping[Any, _Plain]] = {
    str: _Plain("a string", partial(_is_a, str), {"type": "string"}),
    int: _Plain("an integer", partial(_is_a, int), {"type": "integer"}),
    float: _Plain("a number", partial(_is_a, (int, float)), {"type": "number"}),
    bool: _Plain("true or false", _is_bool, {"type": "boolean"}),
    list: _Plain("an array", partial(_is_a, list), {"type": "array"}),
    dict: _Plain("an object", partial(_is_a, Mapping), {"type": "object"}),
    None: _NULL,
    type(None): _NULL,
}


class Demand:
    """What one annotation demands of a value."""

    def __init__(self, annotation: Any) -> None:
        self._annotation = annotation
        self._sorts = _sorts_of(annotation)

    @property
    def words(self) -> str:
        return " or ".join(sort.words for sort in self._sorts) or "a value"

    def read(self, name: str, value: Any) -> tuple[Any, Violations]:
        """Return the value as the function takes it, and the violations of the annotation."""
        if self._sorts and not any(sort.fits(value) for sort in self._sorts):
            return value, (violation(name, self.words, sort_of(value)),)
        return (value, ()) if self.adapter is None else _validated(self.adapter, name, value)

    @cached_property
    def adapter(self) -> Any:
        """Return the pydantic TypeAdapter of an annotation that is not plain.

        None if there is none for it.
        """
        if _is_plain(self._annotation) or self._annotation in (
            Any,
            object,
            inspect.Parameter.empty,
        ):
            return None
        try:
            from pydantic import TypeAdapter

            return cast("Any", TypeAdapter)(_supported(self._annotation))
        except Exception:  # noqa: BLE001 -- not installed, or an annotation unknown to it
            return None

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of an annotation without an adapter; {} allows anything."""
        parts = [dict(sort.schema) for sort in self._sorts]
        if len(parts) > 1:
            return {"anyOf": parts}
        return parts[0] if parts else {}


def schemas_of(demands: Mapping[str, Demand]) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Return the JSON schema of each demand, and the definitions they refer to as `#/$defs/NAME`."""
    found = {name: demand.schema for name, demand in demands.items()}
    adapters = [
        (name, "validation", one.adapter)
        for name, one in demands.items()
        if one.adapter is not None
    ]
    if not adapters:
        return found, {}
    from pydantic import TypeAdapter

    try:
        made, shared = cast("Any", TypeAdapter).json_schemas(adapters)
    except Exception:  # noqa: BLE001 -- a type that pydantic cannot describe (a callable)
        return found, {}
    return found | {name: schema for (name, _), schema in made.items()}, shared.get("$defs", {})


def _validated(adapter: Any, name: str, value: Any) -> tuple[Any, Violations]:
    from pydantic import ValidationError

    try:
        return _strictly(adapter, value), ()
    except ValidationError as error:
        details = cast(
            "list[dict[str, Any]]", error.errors(include_url=False, include_context=False)
        )
        return value, tuple(_violation_of(name, each) for each in details[:_MOST])
    except Exception as error:  # noqa: BLE001 -- a validator of the program's own
        return value, (
            violation(
                name, f"a value that its validator takes ({type(error).__name__})", sort_of(value)
            ),
        )


def _strictly(adapter: Any, value: Any) -> Any:
    """Validate a value strictly.

    A value that JSON can express is validated as JSON, as a model wrote it; any other as a Python
    object.
    """
    from pydantic import ValidationError

    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return adapter.validate_python(value, strict=True)
    try:
        return adapter.validate_json(text, strict=True)
    except ValidationError as error:
        if any(each["type"] == "json_invalid" for each in error.errors()):  # a lone surrogate
            return adapter.validate_python(value, strict=True)
        raise


def _violation_of(name: str, error: Mapping[str, Any]) -> Mapping[str, str]:
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error["loc"])
    field, problem = f"{name}{steps}", redact(str(error["msg"]), limit=_LONGEST)
    if error["type"] == "missing":
        return violation(field, "a value", NOTHING)
    if error["type"] == "extra_forbidden":
        return violation(field, NO_SUCH, sort_of(error["input"]))
    wanted = problem.removeprefix("Input should be ")
    return violation(
        field,
        wanted if wanted != problem else f"a valid value ({problem})",
        sort_of(error["input"]),
    )


def violation(field: object, constraint: str, received: str) -> Mapping[str, str]:
    return {"field": str(field)[:80], "constraint": constraint, "received": received}


def sort_of(value: Any) -> str:
    """Return the JSON name of a value's type."""
    for sort in _PLAIN.values():
        if sort.fits(value):
            return sort.words
    return type(value).__name__


# ---- annotations --------------------------------------------------------------------------------------------------------


def _is_plain(annotation: Any) -> bool:
    """Return whether the plain types express the whole annotation."""
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        return all(_is_plain(part) for part in get_args(annotation))
    try:
        return origin is Literal or annotation in _PLAIN
    except TypeError:  # an annotation may be anything, unhashable included
        return False


def _sorts_of(annotation: Any) -> tuple[_Plain, ...]:
    """Return the plain types that an annotation allows; empty if it is not plain."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _sorts_of(get_args(annotation)[0])
    if origin is Literal:
        choices = get_args(annotation)
        words = "one of " + ", ".join(map(repr, choices))
        return (_Plain(words, partial(_is_one_of, choices), {"enum": list(choices)}),)
    if origin in (Union, types.UnionType):
        each = [_sorts_of(part) for part in get_args(annotation)]
        return () if () in each else tuple(chain.from_iterable(each))
    try:
        sort = _PLAIN.get(origin or annotation)
    except TypeError:
        return ()
    return () if sort is None else (sort,)


def _supported(annotation: Any) -> Any:
    """Replace each `typing.TypedDict` by one that pydantic accepts before Python 3.12."""
    if is_typeddict(annotation):
        import typing_extensions as extended

        fields = {
            name: _field(each, is_required=name in annotation.__required_keys__)
            for name, each in get_type_hints(annotation, include_extras=True).items()
        }
        return cast("Any", extended.TypedDict)(annotation.__name__, fields)
    arguments = get_args(annotation)
    origin = get_origin(annotation)
    if not arguments or origin in (Literal, Callable):
        return annotation
    if origin is Annotated:
        return Annotated[(_supported(arguments[0]), *arguments[1:])]
    parts = tuple(_supported(each) for each in arguments)
    if parts == arguments or origin is None:
        return annotation
    return Union[parts] if origin in (Union, types.UnionType) else origin[parts]  # noqa: UP007


def _field(annotation: Any, *, is_required: bool) -> Any:
    """Return the annotation of a field of a TypedDict as Required or NotRequired."""
    import typing_extensions as extended

    origin = get_origin(annotation)
    if origin in (extended.Required, extended.NotRequired):
        is_required, annotation = origin is extended.Required, get_args(annotation)[0]
    return (extended.Required if is_required else extended.NotRequired)[_supported(annotation)]


def evaluated(annotation: Any, places: dict[str, Any]) -> Any:
    """Evaluate an annotation that is text.

    Returns Any if that fails, as for a name that only type checkers import.
    """
    if not isinstance(annotation, str):
        return annotation
    try:  # a quoted annotation in a module with postponed annotations is a text twice
        return evaluated(eval(annotation, places), places)  # noqa: S307 -- the program's own source, as `typing.get_type_hints` does
    except Exception:  # noqa: BLE001 -- see above
        return Any
