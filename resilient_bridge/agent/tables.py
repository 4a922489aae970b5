"""The tables of settings that are the agent's: OpenViber's agent, budget and degradation, and the toolbox.

Rule: each is a value that the reader of settings reads by its fields; `resilient_bridge.settings`
imports this module when one of these tables stands in a document.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal

import attrs

from ..values.fields import (
    Value,
    as_tuple,
    count,
    fits,
    flag,
    is_number,
    number,
    optional,
    share,
    tuple_of,
    word,
)


if TYPE_CHECKING:
    from .degradation import Degradations
    from .spending.spend_budget import SpendBudget


_MODEL: Final = re.compile(r"[\w.-]+/[\w.:/@-]+", re.ASCII)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


_check_model: Final = fits(
    "a model as provider/model",
    lambda value: isinstance(value, str) and _MODEL.fullmatch(value) is not None,
)
_check_name: Final = fits("a name that is not empty", _is_name)
_check_names: Final = tuple_of("a name", _is_name)
_check_temperature: Final = fits(
    "a number from 0 to 2", lambda value: is_number(value) and 0 <= value <= 2
)


@attrs.frozen(kw_only=True, repr=False, eq=False)
class AgentSettings(Value):
    """OpenViber's settings of an agent, at the top of a file."""

    model: str = attrs.field(validator=_check_model)
    name: str = attrs.field(validator=_check_name)
    fallback_model: str | None = attrs.field(default=None, validator=optional(_check_model))
    skills: tuple[str, ...] = attrs.field(default=(), converter=as_tuple, validator=_check_names)
    tools: tuple[str, ...] = attrs.field(default=(), converter=as_tuple, validator=_check_names)
    temperature: float = attrs.field(default=0.7, validator=_check_temperature)
    max_tokens: int | None = attrs.field(default=None, validator=optional(count))
    verify_providers: bool = attrs.field(default=False, validator=flag)


@attrs.frozen(kw_only=True, repr=False, eq=False)
class BudgetSettings(Value):
    """OpenViber's budget: `SpendBudget` with its words."""

    limit_usd: float = attrs.field(default=10.0, validator=number(least=0, above=True))
    mode: Literal["soft", "hard"] = attrs.field(default="soft", validator=word)
    warning_threshold: float = attrs.field(default=0.8, validator=share)

    def make(self) -> SpendBudget:
        """Return a new budget with these numbers."""
        from . import SpendBudget

        return SpendBudget(self.limit_usd, mode=self.mode, warn_at=self.warning_threshold)


@attrs.frozen(kw_only=True, repr=False, eq=False)
class DegradationSettings(Value):
    """OpenViber's flags: the arguments of `degradations`."""

    disable_browser_on_error: bool = attrs.field(default=True, validator=flag)
    disable_screenshots_on_error: bool = attrs.field(default=True, validator=flag)
    reduce_parallelism_on_rate_limit: bool = attrs.field(default=True, validator=flag)

    def make(self) -> Degradations:
        """Return new `Degradations` with these flags."""
        from . import degradations

        return degradations(
            **{field.name: getattr(self, field.name) for field in attrs.fields(type(self))}
        )


@attrs.frozen(kw_only=True, repr=False, eq=False)
class ToolboxSettings(Value):
    """The settings of a Toolbox: the name of its policy.

    Without a name, the Toolbox has the policies of the bridge.
    """

    policy: str | None = attrs.field(default=None, validator=optional(_check_name))
