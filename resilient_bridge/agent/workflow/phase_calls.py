"""The tool calls of one run of a phase, each recorded before and after it is made.

Rule: a call that may not be repeated is recorded, in both copies of the journal, before it is made.
Its result is recorded before the phase gets it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from ...failure import ConfigError, Executed, error_for
from ...protocol.session_text import as_json
from ..tools.shell_commands import CommandResult
from .journal import CallRecord, digest_of, look_up, unknown


if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from ...calls import Outcome
    from ..tools.tool_calls import Tool
    from .checkpoint import WorkflowState

    class Keeper(Protocol):
        """The owner of the state, which saves it to the file."""

        state: WorkflowState

        def keep(self, state: WorkflowState, *, synced: int = 1) -> Awaitable[None]: ...


_LARGEST: Final = 1 << 20  # bytes of a result that is kept


class PhaseCalls:
    """The journal of one phase, which is called before and after each tool call."""

    def __init__(self, keeper: Keeper, phase: str) -> None:
        self._keeper = keeper
        self._phase = phase
        self._asked: list[CallRecord] = []

    def begin_attempt(self, number: int) -> None:
        """Begin an attempt of the phase.

        After a failed one, forget the calls that may be repeated.
        """
        self._asked.clear()
        if number > 1:
            self._keeper.state = self._keeper.state.forgot_repeatable(self._phase)

    def asked(
        self, number: int, tool: Tool, arguments: Mapping[str, Any] | str
    ) -> tuple[CallRecord, bool]:
        """Return the record of a call, and whether an earlier run made another call at its number.

        A record with a result means that the call need not be made. Raises OutcomeUnknownError for
        one that may have run and must not run twice.
        """
        call = self._call(number, tool, arguments)
        found = look_up(self._keeper.state.calls, call, self._asked)
        if found.in_doubt:
            raise error_for(unknown(call, found.in_doubt))
        self._asked.append(call)
        return found.record or call, found.is_changed

    def _call(self, number: int, tool: Tool, arguments: Mapping[str, Any] | str) -> CallRecord:
        return CallRecord(
            phase=self._phase,
            number=number,
            tool=tool.name,
            arguments=digest_of(arguments),
            may_repeat=tool.idempotent,
        )

    def same(
        self, number: int, tool: Tool, arguments: Mapping[str, Any] | str
    ) -> CallRecord | None:
        """Return the record of this very call, if it is in doubt."""
        call = self._call(number, tool, arguments)
        calls = self._keeper.state.calls
        found = next((one for one in calls if one.is_same(call) and one.is_open), None)
        if found is not None:
            self._asked.append(call)
        return found

    def is_in_doubt(self, call: CallRecord) -> bool:
        """Return whether an earlier run has made this call, and did not record its end."""
        return call.is_open and not any(call is one for one in self._asked)

    async def begin(self, call: CallRecord, *, required: bool) -> None:
        """Record that the call is being made. Raises StoreError: then it must not be made."""
        if call.may_repeat and not required:
            return
        try:
            await self._keeper.keep(self._keeper.state.noted(call), synced=_copies(call))
        except BaseException:  # nothing was called yet
            self._keeper.state = self._keeper.state.unnoted(call)
            raise

    async def end(self, call: CallRecord, outcome: Outcome[Any]) -> None:
        """Record the end of the call, as far as it is known. Raises StoreError."""
        state = self._keeper.state
        did_not_run = outcome.failure is not None and outcome.failure.executed is Executed.NO
        if outcome.failure is None or (
            outcome.is_skipped and not call.may_repeat and not did_not_run
        ):
            # A skipped call returns None to the phase
            value = outcome.value if outcome.failure is None else None
            ended = attrs.evolve(call, result=_written(value))
            await self._keeper.keep(state.noted(ended), synced=_copies(call))
        elif did_not_run or call.may_repeat:
            await self._keeper.keep(state.unnoted(call), synced=_copies(call))


def _copies(call: CallRecord) -> int:
    """Return how many copies of the journal are flushed for a call."""
    return 1 if call.may_repeat else 2


def result_of(call: CallRecord) -> Any:
    result = call.result or {}
    return CommandResult(*result["command"]) if "command" in result else result.get("json")


def _written(value: Any) -> dict[str, Any]:
    if isinstance(value, CommandResult):
        return _recorded(
            "command",
            [value.exit_code, value.stdout, value.stderr, value.seconds, value.is_truncated],
        )
    return _recorded("json", value)


def _recorded(form: str, value: Any) -> dict[str, Any]:
    """Return the value under its form; {} if it is no JSON, or too large."""
    try:
        return {form: as_json("result", value, _LARGEST)}
    except ConfigError:
        return {}
