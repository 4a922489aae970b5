"""What to write instead of a call, a value or a name that is wrong: a line that can be pasted.

Rule: loaded and asked only once something is wrong. What is known of other libraries stands in
`foreign_words`; this module puts the user's own values into it.
"""

# the values are those of a wrong call: anything
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import wraps
from inspect import Parameter, getattr_static, iscoroutinefunction, signature
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar, cast

from ..lazy_names import address, found, names_of, public
from .accepted_lines import accepted_line
from .foreign_words import ARGUMENTS, EXAMPLES, POSITIONS, WHOLE, example
from .secret_values import is_sensitive
from .source_text import shown
from .vocabulary import Category, Kind


_LAST: Final = 99  # of a policy


def merged(first: str, second: str) -> str:
    """Return two calls of one function as one, with the arguments of both; else the second."""
    if not first or not second:
        return first or second
    try:
        one, other = (ast.parse(each.lstrip("@"), mode="eval").body for each in (first, second))
    except SyntaxError:
        return second
    together = _merged_nodes(one, other)
    return ("@" if first.startswith("@") else "") + ast.unparse(together)


def _merged_nodes(one: ast.expr, other: ast.expr) -> ast.expr:
    if not isinstance(one, ast.Call) or not isinstance(other, ast.Call):
        return other
    if isinstance(one.func, ast.Call) and isinstance(
        other.func, ast.Call
    ):  # rb.Policy(…)(idempotent=True)
        one.func = _merged_nodes(one.func, other.func)
    elif ast.unparse(one.func) != ast.unparse(other.func):
        return other
    for argument in other.args:
        head = ast.unparse(argument.func) if isinstance(argument, ast.Call) else ""
        same = next(
            (
                n
                for n, old in enumerate(one.args)
                if isinstance(old, ast.Call) and ast.unparse(old.func) == head
            ),
            None,
        )
        if same is None:
            one.args.append(argument)
        else:
            one.args[same] = _merged_nodes(one.args[same], argument)
    for keyword in other.keywords:
        old = next((each for each in one.keywords if each.arg == keyword.arg), None)
        if old is None:
            one.keywords.append(keyword)
        else:
            old.value = _merged_nodes(old.value, keyword.value)
    if ast.unparse(one.func) == "rb.Policy":
        one.args.sort(key=_position)
    return one


def _position(layer: ast.expr) -> int:
    head = ast.unparse(layer).removeprefix("rb.").partition("(")[0].partition(".")[0]
    position: int | None = getattr(found(head), "usual_position", None)
    return _LAST if position is None else position


_LONGEST: Final = 200  # characters of a value in a line
_CLASS: Final = re.compile(r"(?<![\w.'\"])([A-Z]\w+)(?=[.(])")
_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_PLAIN: Final = str | int | float | bool | bytes | None
_LINES: Final = "rb.", "httpx.", "policy.", "{line}"  # how the entries begin that are a line
_KINDS: Final = Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD


P = ParamSpec("P")
T = TypeVar("T")


def advice(otherwise: T) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Have a function that makes a line return `otherwise` where it fails: the value that it is
    about may be any object, and advice must not take the place of the error.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def advised(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return function(*args, **kwargs)
            except Exception:  # noqa: BLE001 -- see above
                return otherwise

        return advised

    return decorate


# ---- values as source text ------------------------------------------------------------------------------------


def code(value: Any) -> str:
    """Return a value as one writes it in a program that has `rb`: `rb.Retry(attempts=4)`."""
    if isinstance(value, type):
        return address(value.__name__) or value.__name__
    if isinstance(value, FunctionType | MethodType | BuiltinFunctionType):
        name = value.__name__
        return name if name.isidentifier() else "lambda: ..."
    if isinstance(value, list | set | tuple | dict) and len(cast("Any", value)) <= 20:
        return _container(value)
    if isinstance(value, _PLAIN):
        text = shown(value)
    elif hasattr(type(value), "__attrs_attrs__") or isinstance(value, Kind | Category):
        text = _CLASS.sub(lambda found: address(found[1]) or found[1], shown(value))
    elif isinstance(value, timedelta):
        text = f"timedelta(seconds={value.total_seconds():g})"
    elif isinstance(value, re.Pattern):
        text = f"re.compile({shown(cast('Any', value).pattern)})"
    elif isinstance(value, ModuleType):
        text = value.__name__.replace("resilient_bridge", "rb", 1)
    else:
        text = _called(value)
    return text if len(text) <= _LONGEST else "..."


def _container(value: Any) -> str:
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{code(key)}: {code(item)}" for key, item in cast("Any", value.items()))
            + "}"
        )
    items = ", ".join(map(code, value))
    if isinstance(value, tuple):
        return f"({items},)" if len(cast("Any", value)) == 1 else f"({items})"
    return f"[{items}]" if isinstance(value, list) else "{" + items + "}"


def _called(value: object) -> str:
    """Return an object of a class that we do not know, as a name: an AsyncOpenAI is `AsyncOpenAI()`."""
    name = type(value).__name__
    return f"{name}()" if name.isidentifier() else "..."


def received_text(received: object, plain: object, *, is_long: bool = True) -> str:
    """Return what was got, for a sentence; `plain` is the same as plain data without secrets."""
    if isinstance(received, type):
        return f"the class {received.__name__}"
    if isinstance(received, FunctionType | MethodType):
        return f"the function {received.__qualname__}"
    if isinstance(received, ModuleType):
        return f"the module {received.__name__}"
    is_value = hasattr(type(received), "__attrs_attrs__") and isinstance(plain, str)
    text = str(plain) if is_value else repr(plain)
    return text if is_long or len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


_RECEIVERS: Final = {
    "BridgeClient": "bridge", "Receipt": "receipt", "Toolbox": "toolbox", "Policy": "policy", "Workflow": "flow",
    "Reconnecting": "link", "Backoff": "backoff", "SpendBudget": "budget", "Circuit": "circuit", "Peer": "peer",
}  # fmt: skip


def spelled(owner: str) -> str:
    """Return what one writes before the brackets to call it: `await bridge.send`, `rb.Retry`."""
    name, _, method = owner.partition(".")
    if owner == "Policy.__call__":
        return "@policy"
    if owner in {"Toolbox.tool", "Workflow.phase"}:
        return f"@{_RECEIVERS[name]}.{method}"
    kind = found(name)
    is_constructor = isinstance(getattr_static(kind, method, None), classmethod)
    if method and not is_constructor and name in _RECEIVERS:
        is_async = iscoroutinefunction(getattr(kind, method, None))
        return f"{'await ' if is_async else ''}{_RECEIVERS[name]}.{method}"
    where = address(name) or name
    return f"{where}.{method}" if method else where


# ---- wrong calls ----------------------------------------------------------------------------------------------


class Mistake(NamedTuple):
    """What is wrong about a call: the text of its error, and one row for each wrong argument."""

    text: str
    rows: tuple[dict[str, Any], ...]


class _Takes(NamedTuple):
    """What a callable takes."""

    positional: tuple[str, ...]
    named: tuple[str, ...]
    required: tuple[str, ...]
    has_any: bool
    by_position_only: frozenset[str]


def _takes(function: Callable[..., Any], *, is_bound: bool) -> _Takes:
    found = [*signature(function).parameters.values()][1 if is_bound else 0 :]
    named = [
        p.name for p in found if p.kind in {Parameter.KEYWORD_ONLY, Parameter.POSITIONAL_OR_KEYWORD}
    ]
    needed = [
        p.name
        for p in found
        if p.default is Parameter.empty and p.kind in {*_KINDS, Parameter.KEYWORD_ONLY}
    ]
    return _Takes(
        tuple(p.name for p in found if p.kind in _KINDS),
        tuple(named),
        tuple(needed),
        any(p.kind is Parameter.VAR_POSITIONAL for p in found),
        frozenset(p.name for p in found if p.kind is Parameter.POSITIONAL_ONLY),
    )


class _Call:
    """The call as it should have been."""

    def __init__(self, owner: str, takes: _Takes) -> None:
        self.owner, self.takes, self.name = owner, takes, spelled(owner)
        self.positional: list[str] = []
        self.named: dict[str, str] = {}
        self.schedule: dict[str, str] = {}
        self.whole = ""
        self.around: list[str] = []
        self.listed: tuple[str, ...] = ()  # the names there are, once one was told all of them
        self.wanted: list[str] = []
        self.got: list[str] = []
        self.wrong: list[dict[str, Any]] = []

    def code(self, value: object) -> str:
        """Return a value as one writes it; a program's arguments, which may be secret, as a name."""
        is_hidden = self.owner in _PROGRAMS and isinstance(value, str | list | tuple | dict)
        return "command" if is_hidden else code(value)

    def note(self, word: str, wanted: str, received: object, got: str) -> None:
        """Note one wrong argument."""
        self.wanted.append(wanted)
        self.got.append(got)
        self.wrong.append(
            {
                "field": f"{self.owner}.{word}" if word else self.owner,
                "constraint": wanted,
                "received": received,
            }
        )

    def put(self, name: str, text: str) -> None:
        """Give an argument, by position where it has to be; a secret by the name of a variable."""
        if is_sensitive(name):
            text = name
        if name in self.takes.by_position_only and self.name == spelled(self.owner):
            index = self.takes.positional.index(name)
            self.positional += [""] * (index + 1 - len(self.positional))
            self.positional[index] = text
        else:
            self.named[name] = merged(self.named.get(name, ""), text)

    def _fill(self, meaning: str, text: str, value: object) -> None:
        """Give an argument from a template such as `policy=rb.Policy({})`."""
        name, _, template = meaning.partition("=")
        if (
            name == "timeouts"
        ):  # of a Toolbox, which is not made for a trial; a Timeout takes the same
            timeout = accepted_line(f"rb.Timeout({text})", {text: value})
            text = timeout.removeprefix("rb.Timeout(").removesuffix(")") or EXAMPLES["timeout"]
        named = value if isinstance(value, str) and re.fullmatch(r"[\w.-]+", value) else "default"
        filled = template.replace("{name}", named).replace("{}", text)
        self.put(name, filled.replace("{{", "{").replace("}}", "}"))

    def write(self, meaning: str, word: str, value: object) -> None:
        """Give an argument that was called otherwise, by what the table says of it."""
        text = self.code(value)
        if "{}" in meaning and isinstance(value, list | tuple) and "rb.Policy({})" in meaning:
            text = ", ".join(map(code, cast("Any", value)))
        if "rb.Policy({})" in meaning and isinstance(value, bool | int):
            text = f"rb.Retry(attempts={value})" if value > 1 else "rb.Retry()"
        if value is None and "{}" in meaning:
            return  # None is "not this", and means no argument here
        if meaning.startswith(_LINES):
            line = meaning.replace("{word}", word).replace("{}", text)
            if "{line}" in meaning:
                self.around.append(line)
            else:
                self.whole = merged(self.whole, line)
        elif "=" in meaning:
            self._fill(meaning, text, value)
        elif meaning.startswith("backoff."):
            self.schedule.setdefault(meaning.removeprefix("backoff."), text)
        else:
            self._rename(meaning, text, value)

    def _rename(self, meaning: str, text: str, value: object) -> None:
        if meaning == "attempts+1":
            more = isinstance(value, int) and not isinstance(value, bool) and value > 0
            self.put("attempts", str(cast("int", value) + 1) if more else EXAMPLES["attempts"])
        elif meaning == "window.seconds":
            self.put("window", f'"{text}s"' if isinstance(value, int | float) else text)
        elif (
            ":" in meaning
            and self.owner == "Breaker"
            and isinstance(value, float)
            and 0 < value <= 1
        ):
            self.put("rate", text)
        elif ":" in meaning:
            self.name = spelled(meaning.partition(":")[0])
            self.positional.insert(0, text)
            if self.owner == "Backoff" and not isinstance(value, int | float):
                self.whole = schedule_of(value)
        elif meaning == "backoff":
            self.put(meaning, schedule_of(value))
        else:
            self.put(meaning, text)

    def line(self) -> str:
        """Return the line to write."""
        if self.schedule:
            self.put("backoff", _schedule(self.schedule))
        named = [f"{name}={text}" for name, text in self.named.items()]
        line = f"{self.name}({', '.join([*filter(None, self.positional), *named])})"
        line = (
            merged(self.whole, line)
            if self.whole and line.startswith("rb.Policy(")
            else self.whole or line
        )
        for template in self.around:
            line = merged(template.replace("{line}", line), "")
        return line


@advice(cast("Mistake | None", None))
def wrong_call(
    owner: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Mistake | None:
    """Return what is wrong about arguments that a callable does not take; None if it takes them.

    `owner` is its name in errors, `args` begin with the instance or class of a method.
    """
    is_bound = next(iter(signature(function).parameters), "") in {"self", "cls"}
    try:
        signature(function).bind(*args, **kwargs)
    except TypeError:
        pass
    else:
        return None
    takes = _takes(function, is_bound=is_bound)
    call = _Call(owner, takes)
    if special := _SPECIAL.get(owner):
        call.whole = special(args[1:] if is_bound else args)
    _read_positions(call, list(args[1:] if is_bound else args))
    for word, value in kwargs.items():
        _read_word(call, word, value)
    if not args[1:] and not kwargs and owner in WHOLE:
        call.whole = WHOLE[owner]
    if not call.whole:
        _read_missing(call)
    if not call.wrong:
        own = args[1:] if is_bound else args
        wanted = "the arguments of the line" if args or not is_bound else "an object of the class"
        call.note("", wanted, None, ", ".join(map(code, own)) or "none")
    return _as_mistake(call, [*(args[1:] if is_bound else args), *kwargs.values()])


def _one(field: str, wanted: str, got: str, write: str) -> Mistake:
    row = {"field": field, "constraint": wanted, "received": got, "write": write}
    text = f"{field}: wanted {wanted}, got {got}"
    return Mistake(f"{text}; write {write}" if write else text, (row,))


def wrong_use(value: Any, args: tuple[Any, ...]) -> Mistake:
    """Return what is wrong about a policy value that was called: it decorates nothing by itself."""
    name, text = type(value).__name__, code(value)
    if hasattr(type(value), "usual_position"):
        decorates = bool(args) and isinstance(args[0], FunctionType | MethodType)
        line = (
            f"@rb.Policy({text})(idempotent=True)"
            if decorates
            else f"rb.Policy({text}).call(search, query)"
        )
        wanted = "a Policy around it: a layer alone protects nothing"
    else:
        door = {"BridgePolicy": "presets", "Dialect": "dialects"}.get(name, "")
        every = names_of(door) if door else ()
        preset = next(
            (f"rb.{door}.{each}" for each in every if getattr(public(door), each) is value), None
        )
        line, wanted = (
            preset or (text if len(text) <= _LONGEST and text != "..." else f"rb.{name}"),
            "the value itself, without brackets",
        )
    got = (
        f"{name} as a decorator"
        if args and isinstance(args[0], FunctionType)
        else f"a call of {'an' if name[0] in 'AEIO' else 'a'} {name}"
    )
    return _one(name, wanted, got, line)


def wrong_field(value: Any, name: str, passed: object, known: list[str]) -> Mistake:
    """Return what is wrong about a field that a value has not, passed to its `evolve`."""
    owner = type(value).__name__
    meaning = meaning_of(owner, name, known)
    call = _Call(owner, _Takes((), tuple(known), (), has_any=False, by_position_only=frozenset()))
    if meaning and not meaning.startswith(("!", "rb.", "{line}")) and ":" not in meaning:
        call.write(meaning, name, passed)
    if meaning.startswith("rb.Policy("):
        call.write(meaning, name, passed)
        write = call.line().replace("rb.Policy(", "policy.replace(", 1)
        return _one(f"{owner}.evolve", f"a field: {', '.join(known)}", repr(name), write)
    written = call.line().removeprefix(f"{spelled(owner)}(")
    variable = "policy" if owner in {"Policy", "BridgePolicy"} else owner.lower()
    write = f"{variable}.evolve({written}" if written != ")" else ""
    write = accepted_line(write, {variable: value, code(passed): passed}) if write else ""
    return _one(f"{owner}.evolve", f"a field: {', '.join(known)}", repr(name), write)


def _named_apart(args: tuple[Any, ...]) -> str:
    """Return `named("httpx", "ReadTimeout")` for `named("httpx.ReadTimeout")` and `named(ReadTimeout)`."""
    if len(args) != 1:
        return ""
    (passed,) = args
    if isinstance(passed, type):
        top = passed.__module__.partition(".")[0]
        return passed.__name__ if top == "builtins" else f'rb.named("{top}", "{passed.__name__}")'
    package, _, name = (
        passed.replace(":", ".").rpartition(".") if isinstance(passed, str) else ("", "", "")
    )
    return (
        f'rb.named("{package.partition(".")[0]}", "{name}")'
        if package.partition(".")[0].isidentifier()
        else ""
    )


def _host_and_port(args: tuple[Any, ...]) -> str:
    if (
        len(args) != 2
        or not isinstance(args[0], str)
        or not re.fullmatch(r"[\w.-]+", args[0])
        or not isinstance(args[1], int)
    ):
        return ""
    return f'rb.BridgeClient("ws://{args[0]}:{args[1]}")'


def _address(args: tuple[Any, ...]) -> str:
    host, _, port = (
        args[0].rpartition(":") if len(args) == 1 and isinstance(args[0], str) else ("", "", "")
    )
    return f'rb.testing.FaultProxy("{host}", {port})' if port.isdigit() and host else ""


_SPECIAL: Final[dict[str, Callable[[tuple[Any, ...]], str]]] = {
    "named": _named_apart,
    "BridgeClient": _host_and_port,
    "FaultProxy": _address,
}
"""Calls whose arguments belong together: the line from all of them, empty if it is none of these."""


def _read_positions(call: _Call, values: list[Any]) -> None:
    own = len(call.takes.positional)
    call.positional += map(call.code, values if call.takes.has_any else values[:own])
    extra = [] if call.takes.has_any else values[own:]
    if not extra:
        return
    if call.owner == "Timeout":
        call.name = "rb.Timeout.escalating"
        call.positional = [*map(call.code, values)]
        call.note("", "one duration for all attempts", extra[0], ", ".join(map(call.code, values)))
        return
    listed = POSITIONS.get(call.owner, "").split()[own:]
    names = listed or [name for name in call.takes.named if name not in call.takes.positional]
    for index, value in enumerate(extra):
        name = names[index] if index < len(names) else ""
        if (
            isinstance(value, type)
            and issubclass(value, BaseException)
            and "on" in call.takes.named
        ):
            name = "on"
        if not name or not _fits(name, value):
            call.note(
                name,
                f"at most {own} by position" if own else "no argument by position",
                value,
                code(value),
            )
            if not own and index == 0 and isinstance(value, FunctionType):
                call.whole = f"@rb.Policy({spelled(call.owner)}())(idempotent=True)"
            continue
        call.note(name, f"{name.rpartition(':')[2]} by name", value, call.code(value))
        call.write(name, name, value)


def _fits(name: str, value: object) -> bool:
    return not isinstance(value, FunctionType | type) or name in {"on", "factory", "store", "count"}


def _read_word(call: _Call, word: str, value: object) -> None:
    takes, text = call.takes, call.code(value)
    if word in takes.named:
        call.put(word, text)
        return
    if word in takes.by_position_only:
        call.note(word, f"{word} by position, without its name", value, f"{word}={text}")
        call.put(word, text)
        return
    meaning = meaning_of(call.owner, word, (*takes.named, *takes.by_position_only))
    got = f"{word}={text}"
    if not meaning:
        known = ", ".join(takes.named) or "no argument by name"
        call.listed = takes.named
        call.note(word, f"one of {known}" if takes.named else known, value, got)
    elif meaning.startswith("!"):
        call.note(word, f"no {word}= ({meaning[1:]})", value, got)
    else:
        call.note(word, _wanted(meaning, word), value, got)
        call.write(meaning, word, value)


def _wanted(meaning: str, word: str) -> str:
    if "=" in meaning and not meaning.startswith(_LINES):
        return f"{meaning.partition('=')[0]}="
    if meaning.startswith(_LINES):
        return f"another place for {word}"
    return f"{re.split('[.+=]', meaning.rpartition(':')[2], maxsplit=1)[0]}="


def _read_missing(call: _Call) -> None:
    takes = call.takes
    if call.name != spelled(call.owner):
        return
    for index, name in enumerate(takes.required):
        is_there = name in call.named or (
            name in takes.positional
            and takes.positional.index(name) < len(call.positional)
            and call.positional[takes.positional.index(name)]
        )
        if is_there:
            continue
        if name not in takes.positional or (
            name not in takes.by_position_only and index >= len(takes.positional)
        ):
            call.named.setdefault(name, example(call.owner, name))
        else:
            position = takes.positional.index(name)
            call.positional += [""] * (position + 1 - len(call.positional))
            call.positional[position] = example(call.owner, name)
        call.note(name, name, None, f"no {name}")


def _as_mistake(call: _Call, received: list[object]) -> Mistake:
    line = accepted_line(call.line(), {call.code(value): value for value in received})
    wants = [each for each in call.wanted if each not in call.listed]
    wanted, got = (", ".join(dict.fromkeys(each)) for each in (wants, call.got))
    rows = tuple({**row, "write": line} if line else row for row in call.wrong)
    owner = "@policy" if call.owner == "Policy.__call__" else call.owner
    text = f"{owner}: wanted {wanted}, got {got}"
    return Mistake(f"{text}; write {line}" if line else text, rows)


def meaning_of(owner: str, word: str, known: Iterable[str]) -> str:
    """Return what a foreign argument means here (see `foreign_words`); empty if nobody knows.

    Of a class for settings `owner` is its name. A near miss of an own argument is that argument.
    """
    table = ARGUMENTS.get(owner, {})
    spelled = _WORD.sub("_", word).lower()
    known = list(known)
    for each in (word, spelled):
        if each in table:
            return table[each]
        if each in known:
            return each
    near = difflib.get_close_matches(spelled, [*known, *table], n=1, cutoff=0.75)
    return "" if not near else near[0] if near[0] in known else table[near[0]]


def required_of(owner: str, function: Callable[..., Any], without: str = "") -> str:
    """Return the arguments that a callable needs, each with an example; one of them left out."""
    try:
        found = [
            each
            for name, each in signature(function).parameters.items()
            if name not in {"self", "cls", without}
        ]
    except (TypeError, ValueError):
        return ""
    needed = (
        each
        for each in found
        if each.default is Parameter.empty
        and each.kind not in {Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD}
    )
    texts = (
        f"{each.name}={example(owner, each.name)}"
        if each.kind is Parameter.KEYWORD_ONLY
        else example(owner, each.name)
        for each in needed
    )
    return ", ".join(texts)


_PROGRAMS: Final = frozenset({"stdio", "Daemon", "Sidecar"})


# ---- schedules ------------------------------------------------------------------------------------------------


def _schedule(parts: Mapping[str, str]) -> str:
    if "constant" in parts:
        return f"rb.Backoff.constant({parts['constant']})"
    shape = parts.get("shape", "").strip("'\"").lower()
    shape = shape if shape in {"constant", "linear", "decorrelated"} else "exponential"
    more = [
        f"{name}={parts[name]}"
        for name in ("factor", "cap")
        if name in parts and shape == "exponential"
    ]
    if "cap" in parts and shape in {"linear", "decorrelated"}:
        more.append(f"cap={parts['cap']}")
    if "jitter" in parts and shape != "decorrelated":
        is_off = parts["jitter"] in {"False", "None", "0"}
        more.append(f'jitter="{"none" if is_off else "full"}"')
    return f"rb.Backoff.{shape}({', '.join([parts.get('base', '1'), *more])})"


def schedule_of(value: object) -> str:
    """Return a schedule from what people give as one: a number, a text, a list."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return f"rb.Backoff.constant({code(value)})"
    if isinstance(value, list | tuple) and value:
        return f"rb.Backoff.steps({', '.join(map(code, cast('Any', value)))})"
    if isinstance(value, str):
        shape = value.strip().lower()
        if re.fullmatch(r"\d+(\.\d+)?\s*(us|ms|s|m|min|h)", shape):
            return f"rb.Backoff.constant({value!r})"
        found = shape if shape in {"constant", "linear", "decorrelated"} else "exponential"
        return f"rb.Backoff.{found}(1)"
    if callable(value) and not isinstance(value, type | MethodType):
        return code(value)
    return EXAMPLES["backoff"]
