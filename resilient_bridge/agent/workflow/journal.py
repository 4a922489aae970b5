"""The tool calls of a phase, as the state file records them: at their start, and at their end.

Rule: a call that may not be repeated is made once. A recorded result is used again. The user
decides about a call without a recorded end, and about one that cannot be distinguished from the
call asked for now. Pure: no I/O, no clock.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from ...failure import Executed, Failure
from .workflow_fields import count, flag, items, mapping, text, wrong


if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


@attrs.frozen(kw_only=True)
class CallRecord:
    """One call of a tool by a phase, and its result if it has ended.

    `arguments` is a digest. `may_repeat`: the tool is idempotent. `result`: None until the call has
    ended; {} if it ended with a value that JSON cannot hold, or that is too large.
    """

    phase: str
    number: int
    tool: str
    arguments: str
    may_repeat: bool
    result: Mapping[str, Any] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the call must not run twice and has no usable result: it may have run."""
        return not self.result and not self.may_repeat

    def is_same(self, other: CallRecord) -> bool:
        """Whether both are the same call of the same phase, ended or not."""
        return (self.phase, self.number, self.tool, self.arguments) == (
            other.phase,
            other.number,
            other.tool,
            other.arguments,
        )

    def to_value(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _NAMES}


def digest_of(arguments: Mapping[str, Any] | str) -> str:
    """Return a digest of the arguments of a call.

    It is equal for equal arguments, as a mapping or as JSON text.
    """
    plain: Any = arguments
    if isinstance(arguments, str):
        try:
            plain = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            plain = arguments
    try:
        written = json.dumps(plain, sort_keys=True, default=repr)
    except (
        TypeError,
        ValueError,
        RecursionError,
    ):  # mixed keys, or a cycle: the tool will refuse it
        written = repr(plain)
    return f"sha256:{sha256(written.encode('utf-8', 'surrogatepass')).hexdigest()}"


class JournalMatch(NamedTuple):
    """The journal's answer about a call.

    `record` has the result of an earlier run. Without one: `is_changed` if its number was another
    call, and the calls `in_doubt`.
    """

    record: CallRecord | None = None
    is_changed: bool = False
    in_doubt: tuple[CallRecord, ...] = ()


def look_up(
    calls: Iterable[CallRecord], call: CallRecord, asked: Collection[CallRecord]
) -> JournalMatch:
    """Return whether a call is to be made, has a recorded result, or is in doubt.

    `asked`: the calls of this attempt so far.
    """
    of_phase = [one for one in calls if one.phase == call.phase]
    same = next((one for one in of_phase if one.is_same(call)), None)
    if same is not None and (same.result or same.may_repeat):
        return JournalMatch(record=same if same.result else None)
    if same is not None:  # it has no recorded end, or its result could not be saved
        return JournalMatch(in_doubt=() if call.may_repeat else (same,))
    is_changed = any(one.number == call.number for one in of_phase)
    if call.may_repeat:
        return JournalMatch(is_changed=is_changed)
    others = tuple(
        one
        for one in of_phase
        if one.tool == call.tool
        and not one.may_repeat
        and not any(one.is_same(known) for known in asked)
    )
    return JournalMatch(is_changed=is_changed, in_doubt=others)


def unknown(call: CallRecord, found: Iterable[CallRecord]) -> Failure:
    """Return the failure for a call that may have run: it is not made, and the user decides."""
    others = tuple(found)
    at = ", ".join(str(one.number) for one in others)
    if any(one.is_same(call) for one in others):
        ended = any(one.result is not None for one in others)
        why = (
            "it has run, and its result could not be kept" if ended else "nothing says how it ended"
        )
        doubt = f"tool {call.tool} may have run as call {call.number} of phase {call.phase}: {why}"
    else:
        doubt = (
            f"tool {call.tool} may have run: phase {call.phase} asks for it as call {call.number}, and in an earlier run"
            f" it was call {at} or had other arguments"
        )
    return Failure.of(
        "SYS_OUTCOME_UNKNOWN",
        doubt,
        executed=Executed.MAYBE,
        details={"tool": call.tool, "calls": [one.number for one in others]},
        suggestions=(
            f"find out what {call.tool} did; then resume to call it again, or skip the phase",
        ),
    )


# ---- the file ---------------------------------------------------------------------------------------------------------


def read_call(value: Any, path: str) -> CallRecord:
    """Read a record from JSON data. Raises ValueError with the path of the wrong field."""
    body = mapping(value, path, _KEYS)
    result = None if body["result"] is None else mapping(body["result"], f"{path}.result")
    if result is not None and result.keys() - {"json", "command"}:
        raise wrong(
            f"{path}.result", "a result as JSON, or that of a command", ", ".join(sorted(result))
        )
    if result and "command" in result and len(items(result["command"], f"{path}.result")) != _PARTS:
        raise wrong(f"{path}.result", f"{_PARTS} parts of a command's result", "another number")
    return CallRecord(
        phase=text(body["phase"], f"{path}.phase"),
        number=count(body["number"], f"{path}.number"),
        tool=text(body["tool"], f"{path}.tool"),
        arguments=text(body["arguments"], f"{path}.arguments"),
        may_repeat=flag(body["may_repeat"], f"{path}.may_repeat"),
        result=result,
    )


_PARTS: Final = 5  # exit code, stdout, stderr, seconds, whether it is truncated
_NAMES: Final = tuple(field.name for field in attrs.fields(CallRecord))
_KEYS: Final = frozenset(_NAMES)
