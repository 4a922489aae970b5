"""What is known of a class of errors: its rules, worked out once for each class.

Rule: a rule is data (a `Finding`) or one small function. A
class is recognised by (top package, class name) along its MRO. Nothing is imported, and a subclass
from any package is treated like its base. A new rule is a new row in the table of its library,
which is loaded with the first error of that library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from types import MappingProxyType, WrapperDescriptorType
from typing import Any, Final, NamedTuple, TypeAlias

from .exceptions import BridgeError
from .failure import Failure, Finding
from .redaction import package_of, text_of


Reader: TypeAlias = Callable[[Any], Finding | Failure | None]
"""A rule for one class that has to read the exception; None passes it on to a base class's rule."""

Key: TypeAlias = tuple[str, str]
"""The top package and the name of a class: nothing is imported to recognise an error."""
Rules: TypeAlias = Mapping[Key, Finding | Reader]
"""What errors of each class mean."""


def wrong_setting(message: str) -> Finding:
    """Return the verdict on a setting that a library refuses."""
    return Finding(code="SYS_CONFIG_INVALID", message=message)


def chain_of(error: BaseException, most: int) -> Iterator[BaseException]:
    """Yield an error and the errors below it, suppressed or not."""
    below: BaseException | None = error
    for _ in range(most):
        if below is None:
            return
        yield below
        below = below.__cause__ or below.__context__


def own_words(error: BaseException, *packages: str) -> str:
    """Return the text of a library's error; empty for a subclass of the user's.

    Such a class is read by its base, never by its words.
    """
    return text_of(error) if package_of(type(error)) in packages else ""


# ---- the rules of a class ---------------------------------------------------------------------------


_LIBRARIES: Final = {
    "answers": "fastmcp mcp",
    "exits": "subprocess",
    "http_clients": "aiohttp h11 http httpcore httpcore2 httpx httpx2 requests urllib urllib3",
    "sdks": "anthropic google litellm openai",
    "services": "botocore grpc",
    "system": (
        "anyio asyncio builtins concurrent json jsonschema paramiko psycopg psycopg2 pydantic_core "
        "pymysql redis resilient_bridge socket sqlite3 ssl websockets"
    ),
}
"""The modules with rules, each with the packages whose errors it reads: loaded when one of those is met."""
_HOMES: Final = {
    package: home for home, packages in _LIBRARIES.items() for package in packages.split()
}
PACKAGES: Final = frozenset(_HOMES)
"""The packages whose errors are known by their classes."""


class Rows(NamedTuple):
    """What is written of the classes of some packages.

    `wrappers` are classes below which the root cause is searched, with their subclasses; and what
    their coming proves: the name of a row of `vocabulary.PROOFS`, nothing (empty: it may have run),
    or what lies below (None). `leaves` are subclasses of wrappers that hide no other error.
    `through`: wrappers of whatever a transport raised, a bug of it too; what lies below always has
    the word. `providers`: the base class by which a provider's errors are known, and its id in the
    details.
    """

    rules: Rules
    wrappers: Mapping[Key, str | None] = MappingProxyType({})
    leaves: frozenset[Key] = frozenset()
    providers: Mapping[Key, str] = MappingProxyType({})
    through: frozenset[Key] = frozenset()


_NONE: Final = Rows(MappingProxyType({}))


def rows_of(package: str) -> Rows:
    """Return what is written of a package's classes; nothing of a package that is not known."""
    home = _HOMES.get(package)
    if home is None:
        return _NONE
    rows: Rows = import_module(f".{home}", __package__).ROWS
    return rows


_STOPS: Final = frozenset(  # never failures: they end the task, the program or a generator
    {
        ("builtins", "KeyboardInterrupt"),
        ("builtins", "SystemExit"),
        ("builtins", "GeneratorExit"),
        ("asyncio", "CancelledError"),
        ("concurrent", "CancelledError"),
        ("trio", "Cancelled"),
    }
)
# Errors that have only their text: exactly these, because whoever makes a class says more with its
# name than with its words. Any other built-in class (TypeError, KeyError, …) is a defect, whatever its
# text.
_TEXTUAL: Final = frozenset({Exception, RuntimeError, OSError, ConnectionError})
_HTTP_LIBRARIES: Final = frozenset({"httpx", "httpx2", "aiohttp"})
_MOST_CLASSES: Final = 1_024


class Dispatch(NamedTuple):
    """What is known about a class: its rules, the nearest first, and its kind."""

    rules: tuple[Finding | Reader, ...]
    wraps: bool
    proof: str | None
    through: bool
    stops: bool
    textual: bool
    provider: str
    keys: frozenset[Key]
    is_group: bool
    is_http: bool
    is_ours: bool
    may_wait: bool


KNOWN: Final[dict[type, Dispatch]] = {}
"""The results so far; callers look here first to save the function call for each failure."""


def dispatch(cls: type) -> Dispatch:
    """Return what is known about a class."""
    return KNOWN.get(cls) or _work_out(cls)


def rule_for(error: BaseException) -> Dispatch:
    """Return the rule for the class of an error: one look-up, whatever the number of rules."""
    return KNOWN.get(type(error)) or _work_out(type(error))


def _work_out(cls: type) -> Dispatch:
    if len(KNOWN) >= _MOST_CLASSES:  # classes made at run time must not pile up
        KNOWN.clear()
    keys = [(package_of(base), base.__name__) for base in cls.__mro__]
    rows = [(rows_of(key[0]), key) for key in keys]
    wrapper = next(((of, key) for of, key in rows if key in of.wrappers or key in of.leaves), None)
    is_litellm = keys[0][0] == "litellm"
    provider = next((of.providers[key] for of, key in rows if key in of.providers), "")
    found = KNOWN[cls] = Dispatch(
        rules=tuple(of.rules[key] for of, key in rows if key in of.rules),
        wraps=wrapper is not None and wrapper[1] in wrapper[0].wrappers,
        proof=None if wrapper is None else wrapper[0].wrappers.get(wrapper[1]),
        through=not is_litellm and any(key in of.through for of, key in rows),
        stops=any(key in _STOPS for key in keys),
        textual=cls in _TEXTUAL,
        provider="litellm" if is_litellm else provider,
        keys=frozenset(keys),
        is_group=issubclass(cls, BaseExceptionGroup),
        is_http=keys[0][0] in _HTTP_LIBRARIES,
        is_ours=issubclass(cls, BridgeError),
        may_wait=any(_may_wait(base) for base in cls.__mro__),
    )
    return found


def _may_wait(cls: type) -> bool:
    """Return whether errors of a class can have a `retry_after` that is not stored on themselves."""
    own = vars(cls)
    reads = own.get("__getattribute__")
    # as every class of Python's own
    is_usual = reads is None or type(reads) is WrapperDescriptorType
    return "retry_after" in own or "__getattr__" in own or not is_usual
