"""The rules for a class of exceptions, computed once per class.

Rule: a class is recognised by (top package, class name) along its MRO. Nothing is imported, and a
subclass from any package is treated like its base. A new rule is a new row in a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import WrapperDescriptorType
from typing import Final

import attrs

from . import exits, http_clients, rpc_answers, sdks, services, system
from .exceptions import BridgeError
from .finding import Finding, Reader, package_of


Key = tuple[str, str]

RULES: Final[Mapping[Key, Finding | Reader]] = {
    **system.RULES,
    **http_clients.RULES,
    **services.RULES,
    **exits.RULES,
    **rpc_answers.RULES,
    **sdks.RULES,
}
_WRAPPERS: Final[Mapping[Key, str | None]] = {**http_clients.WRAPPERS, **services.WRAPPERS}
_LEAVES: Final = http_clients.LEAVES | services.LEAVES
_PROVIDERS: Final[Mapping[Key, str]] = sdks.PROVIDERS
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


@attrs.frozen
class Dispatch:
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
    wrapper = next((key for key in keys if key in _WRAPPERS or key in _LEAVES), None)
    found = KNOWN[cls] = Dispatch(
        rules=tuple(RULES[key] for key in keys if key in RULES),
        wraps=wrapper in _WRAPPERS,
        proof=None if wrapper is None else _WRAPPERS.get(wrapper),
        through=keys[0][0] != "litellm" and any(key in http_clients.SDK_WRAPPERS for key in keys),
        stops=any(key in _STOPS for key in keys),
        textual=cls in _TEXTUAL,
        provider="litellm"
        if keys[0][0] == "litellm"
        else next((_PROVIDERS[key] for key in keys if key in _PROVIDERS), ""),
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
    is_usual = (
        reads is None or type(reads) is WrapperDescriptorType
    )  # as every class of Python's own
    return "retry_after" in own or "__getattr__" in own or not is_usual
