"""The steps of `doctor`: connect, wait for an event, cut, examine, perhaps probe, close.

Rule: each step has a share of the total time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

import attrs

from ..client import BridgeClient
from ..failure import BridgeError, Failure, classify, mapping_of, redact
from ..presets import default
from ..presets.bridge_policy import BridgePolicy
from ..protocol.frames import decode_json
from ..protocol.policies import Dialect, Heartbeat, Reconnect, Replay
from ..protocol.recognition import fitting
from ..telemetry import listen
from ..telemetry.events import BridgeState
from ..telemetry.hub import muted
from ..values.backoff import Backoff
from .doctor_journal import Connection, Entry, Probe
from .doctor_taps import Journal, WatchedClient


_GOODBYE: Final = 1.5  # seconds to close the connection
_ASIDE: Final = 0.3  # seconds to wait for late messages of a step
_PROBE: Final = 2.0  # seconds for the answers to a probe
_REPLAY: Final = 2.0  # seconds for the rest of a replay from the start
_PING_EVERY: Final = 0.5
_LONGEST: Final = 3600.0
_FIRST_FRAMES: Final = 3
_SHOWN: Final = 100  # characters of a frame


@attrs.frozen(kw_only=True)
class Limits:
    """The shares of the time, in seconds; `end` is a moment of the loop's clock."""

    end: float
    connecting: float
    listening: float
    waiting: float
    judging: float
    probing: float

    @classmethod
    def of(cls, seconds: float, now: float) -> Limits:
        """Return the shares of a total of `seconds`, which begin at `now`."""
        usable = seconds - min(_GOODBYE, seconds * 0.2)
        return cls(
            end=now + usable,
            connecting=min(10.0, usable * 0.4),
            listening=min(1.5, usable * 0.1),
            waiting=min(5.0, usable * 0.3),
            judging=min(30.0, usable),
            probing=min(_PROBE, usable * 0.15),
        )


class Examined(NamedTuple):
    """The result: the recorded connections, why they ended early, and the dialects that fit.

    `failure` is set if the client gave up; `why` says which step failed, if one did.
    """

    connections: Sequence[Connection]
    failure: Failure | None
    why: str
    fits: tuple[str, ...]
    notes: Sequence[str]
    began: float  # our wall clock when it began, in seconds since 1970


async def examine(
    url: str,
    dialect: Dialect,
    limits: Limits,
    *,
    token: str | None,
    session_id: str | None,
    probe_type: str | None,
) -> Examined:
    """Examine the bridge until the limits' end. Raises ConfigError for wrong arguments."""
    journal = Journal(dialect)
    client = WatchedClient(
        url, journal, dialect, token=token, session_id=session_id, policy=_policy(limits)
    )
    steps = _Steps(journal, client, dialect, limits)
    with listen(journal.happened), muted():
        async with client:
            try:
                async with asyncio.timeout_at(limits.end):
                    await steps.run(probe_type)
            except TimeoutError:
                if journal.transport is not None:
                    journal.transport.abort()  # no time is left for a close handshake
            finally:
                await client.aclose(drain=0)
    return steps.examined()


def _policy(limits: Limits) -> BridgePolicy:
    """Return a policy that reconnects fast, and never ends a connection for a missing pong.

    A missing pong is a finding, so the timeouts of the heartbeat are an hour.
    """
    return default.evolve(
        reconnect=Reconnect(
            backoff=Backoff.constant(0.5),
            attempts=3,
            on_exhausted="raise",
            first_connect="raise",
            connect_timeout=limits.connecting,
            connect_burst=100,
            connects_per_minute=6_000,
        ),
        heartbeat=Heartbeat(every=_PING_EVERY, timeout=_LONGEST, probe_timeout=_LONGEST),
        replay=Replay(timeout=limits.connecting, max_seconds=limits.connecting),
    )


class _Steps:
    """One examination."""

    def __init__(
        self, journal: Journal, client: BridgeClient, dialect: Dialect, limits: Limits
    ) -> None:
        self._journal, self._client, self._dialect, self._limits = journal, client, dialect, limits
        self._connections = journal.reading.connections
        self._why = "the bridge did not accept the connection in this time"

    async def run(self, probe_type: str | None) -> None:
        """Run the steps; end early if the client is not ready before the cut."""
        if not await self._until(self._is_ready):
            return
        await self._until(self._has_seen_enough, self._limits.waiting)
        await self._replay_ended()
        if not await self._until(self._is_ready):
            return
        cut = self._cut()
        self._why = "the bridge did not accept the connection again, after the cut, in this time"
        share = self._limits.probing + _ASIDE if probe_type is not None else _ASIDE
        judging = min(self._limits.judging, self._remaining() - share)
        back = await self._until(lambda: self._is_judged(cut), judging)
        await asyncio.sleep(min(_ASIDE, max(0.0, self._remaining())))
        if probe_type is not None and back:
            await self._probe(probe_type)

    def examined(self) -> Examined:
        """Return what was recorded so far."""
        frames = [entry.value for entry in self._journal.entries if entry.kind == "came"][
            :_FIRST_FRAMES
        ]
        texts = [
            frame if isinstance(frame, str) else frame.decode("utf-8", "replace")
            for frame in frames
        ]
        notes = [
            *self._journal.notes,
            *(["More came than this command looks at."] if self._journal.is_full else []),
        ]
        failure = self._journal.failure
        why = self._why if failure is None else str(failure)
        connections = list(self._connections.values())
        return Examined(connections, failure, why, fitting(texts), notes, self._journal.began)

    # ---- steps
    def _cut(self) -> int:
        """Cut the connection without a close frame, as a network does; return its number."""
        self._journal.add("cut")
        if self._journal.transport is not None:
            self._journal.transport.abort()
        return self._journal.connection

    async def _probe(self, type_: str) -> None:
        """Send one message of this type twice, with one id and key."""
        journal = self._journal
        before = len(journal.entries)
        journal.sent = ""
        try:
            receipt = await self._client.send(type_, {})
        except BridgeError as error:
            journal.notes.append(
                f"The message of --probe-type was not sent: {error.failure.message}."
            )
            return
        journal.add("probed", Probe(type_, receipt.id, receipt.idempotency_key, journal.number))
        is_ours = partial(_is_of, sent=journal.sent, identity=receipt.id)

        def frame() -> str | None:
            return next((each.value for each in journal.entries[before:] if is_ours(each)), None)

        await journal.until(
            lambda: frame() is not None, min(self._limits.probing, self._remaining())
        )
        again, transport = frame(), journal.transport
        if again is None or transport is None:
            journal.notes.append("The message of --probe-type did not go out.")
            return
        try:
            await transport.send(again)
        except Exception as error:  # noqa: BLE001 -- the repetition was not sent
            journal.notes.append(
                f"The message of --probe-type went out once only: {classify(error).message}."
            )
            return
        await asyncio.sleep(min(self._limits.probing, max(0.0, self._remaining())))
        refused = next(filter(_is_error, journal.entries[before:]), None)
        if refused is not None:
            journal.notes.append(
                f"The server answered the message of --probe-type with an error: {redact(str(refused.value), limit=_SHOWN)}."
            )

    # ---- conditions
    async def _until(self, holds: Callable[[], bool], seconds: float | None = None) -> bool:
        """Wait until it holds, the client gives up, or time is over; return whether it holds."""
        limit = self._remaining() if seconds is None else min(seconds, self._remaining())
        await self._journal.until(lambda: self._journal.failure is not None or holds(), limit)
        return self._journal.failure is None and holds()

    async def _replay_ended(self) -> None:
        """Wait until the replay has ended: a cut within it would hide how much the server keeps."""
        journal = self._journal
        end = journal.moment() + min(_REPLAY, self._remaining() / 4)
        while journal.moment() < end:
            connection = self._connections.get(journal.connection)
            if connection is None or not connection.is_replaying(journal.moment()):
                return
            await asyncio.sleep(_ASIDE / 3)

    def _remaining(self) -> float:
        return self._limits.end - asyncio.get_running_loop().time()

    def _is_ready(self) -> bool:
        return self._client.state is BridgeState.READY

    def _has_seen_enough(self) -> bool:
        """Return whether an event and an answer to a ping were received.

        In a dialect with positions, the event has one.
        """
        connections = self._connections.values()
        has_positions = self._dialect.positions is not None
        has_event = any(
            each.has_position if has_positions else each.has_event for each in connections
        )
        return has_event and any(each.has_pong for each in connections)

    def _is_judged(self, cut: int) -> bool:
        later = [each for each in self._connections.values() if each.number > cut]
        return self._is_ready() and any(each.resumed is not None for each in later)


def _is_of(entry: Entry, *, sent: str | bytes, identity: str) -> bool:
    """Return whether this is the frame of the sent message.

    `sent` is that frame in a dialect with its own `encode`, where it may contain no id; else it is
    empty, and the frame contains `identity`.
    """
    return entry.kind == "went" and (entry.value == sent if sent else identity in str(entry.value))


def _is_error(entry: Entry) -> bool:
    """Return whether this is a frame of the server that says `error`, as its type or as a field."""
    if entry.kind != "came" or not isinstance(entry.value, str):
        return False
    try:
        frame = mapping_of(decode_json(entry.value))
    except ValueError:
        return False
    return bool(frame.get("error")) or frame.get("type") == "error"
