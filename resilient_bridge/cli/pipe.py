"""`resilient-bridge pipe URL`: send JSON lines from stdin, and print messages as JSON lines.

Rule: each line of input has one outcome. No line on stderr means that it was confirmed; any other
outcome is a line on stderr with the number of the input line, and the exit code is that of the
worst. With a store, messages that a killed run accepted belong to the next run, which reports
their outcome by key.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from typing import Final

import attrs

from .. import events, presets
from ..adapters.processes.signals import on_signals
from ..adapters.processes.standard_streams import LINE_TOO_LONG, Output, lines_of
from ..client import BridgeClient, Receipt
from ..failure import (
    BridgeError,
    ConfigError,
    OutboxFullError,
    ProtocolError,
    SessionError,
    StoreError,
)
from ..protocol import Gap
from ..protocol.policies import Dialect
from ..stores import SessionLog
from ..telemetry import listen
from ..telemetry.event import name_in_words
from ..telemetry.events import BridgeState
from ..telemetry.hub import muted
from ..telemetry.line_rate import PER, LineRate, RatedLines
from .dialects import can_confirm, forms_of, read_dialect
from .options import token_from
from .pipe_events import line_of, line_of_gap, started
from .pipe_lines import bad_line, parse_frame, parse_line, print_message
from .pipe_receipts import Dealt, Receipts
from .printing import USAGE, complain, for_a_shell, words_of
from .status_line import StatusLine
from .terminal import CLEAR, can_be_cleared, columns, fitted, is_terminal


OK, FAILED, _, UNCONFIRMED, REFUSED, NOT_REACHED = range(6)
_GOODBYE: Final = 2.0  # seconds for the last lines of output
_LOOK_AGAIN: Final = 0.01
_ON_THIS_LINE: Final = (ProtocolError, OutboxFullError, ConfigError)
_STANDING: Final = frozenset({"queued", "written", "confirmed"})


def run(arguments: argparse.Namespace) -> int:
    """Run until the end of input, a signal, a closed stdout, or a fatal error; then drain.

    With --keep-open, go on after the end of input. Return the exit code.
    """
    if arguments.receipts is not None and arguments.store is None:
        return complain("pipe", "--receipts: expected with --store, whose acceptance they state")
    try:
        token = token_from(arguments.token_env)
        dialect = None if arguments.dialect is None else read_dialect(arguments.dialect).dialect
    except ValueError as error:
        return complain("pipe", f"--dialect: {error}")
    except LookupError as error:
        return complain("pipe", str(error.args[0]))
    try:
        return asyncio.run(_run(arguments, token, dialect))
    except (ConfigError, StoreError) as error:
        return complain("pipe", for_a_shell(error))


async def _run(arguments: argparse.Namespace, token: str | None, dialect: Dialect | None) -> int:
    policy = getattr(presets, arguments.preset)
    # While the outbox is full, no more of stdin is read.
    policy = policy.evolve(outbox=attrs.evolve(policy.outbox, overflow="block"))
    pipe = Pipe(arguments, dialect or policy.dialect)
    client = ReportingClient(
        arguments.url,
        token=token,
        session_id=arguments.session,
        policy=policy,
        dialect=dialect,
        store=arguments.store,
        pin=arguments.pin,
        on_gap=pipe.tell_gap,
    )
    client.report_first(pipe.report_outcomes)
    return await pipe.run(client)


class ReportingClient(BridgeClient):
    """A client whose outcomes are reported before its store records them as final."""

    def report_first(self, tell: Callable[[list[tuple[Receipt, str | None]]], None]) -> None:
        """Call `tell` with each receipt that gets its outcome, and how it was confirmed."""
        driver = self._driver
        driver.before_settling = lambda entries: tell(
            [(Receipt(entry, driver), entry.confirmation) for entry in entries]
        )


@attrs.define(eq=False)
class Waiting:
    """A send without an outcome yet: its name on stderr, and whether an earlier run accepted it."""

    name: str
    receipt: Receipt
    is_earlier: bool = False
    is_reported: bool = False


class Pipe:
    """One run, of three tasks.

    The feeder sends the lines of stdin, the settler waits for the outcome of each, and the printer
    writes messages to stdout.
    """

    def __init__(self, arguments: argparse.Namespace, dialect: Dialect) -> None:
        self._arguments = arguments
        self._log = None if arguments.events is None else SessionLog(arguments.events)
        self._forms = forms_of(dialect)
        self._is_envelope = dialect.encode is None
        # Without confirmations in this dialect, a send is done once it is written.
        self._open = {"queued", "written"} if can_confirm(dialect) else {"queued"}
        self._store = arguments.store
        self._receipts: Receipts | None = None
        self._noticed = ""
        self._out = Output(1)
        self._err = Output(2)
        self._rated = RatedLines(LineRate(), self._tell_omitted)  # the lines that the server causes
        self._waiting: asyncio.Queue[Waiting | None] = asyncio.Queue()
        self._named: dict[str, list[Waiting]] = {}  # those without an outcome, by the message's id
        self._reported_early: set[str] = set()  # ids of what got its outcome before `send` returned
        self._number = 0  # of the line of input that is being sent
        self._is_stalled = False  # is stderr not read?
        self._stop = asyncio.Event()
        self._abort = asyncio.Event()
        self._stored: dict[str, None] = {}
        self._refused = 0
        self._unconfirmed = 0
        self._failed = False
        self._is_printing = False
        self._reached = asyncio.Event()
        self._state = ""
        self._status_line: StatusLine | None = None
        self._sent = 0
        self._confirmed = 0
        self._received = 0

    async def run(self, client: BridgeClient) -> int:
        """Run it and return the exit code. Raises StoreError if the store cannot be used."""
        try:
            with (
                self._log or nullcontext(),
                on_signals(self._signalled),
                listen(self._tell),
                muted(),
                self._status(),
            ):
                if self._log is not None:
                    self._log.write(started("pipe"))
                async with client:
                    code = self._continue(client)
                    if code:
                        await client.aclose(drain=0)
                    else:
                        await self._play(client)
                        code = self._code()
        finally:
            if self._receipts is not None:
                self._receipts.close()
            self._rated.close()
            await self._out.aclose(_GOODBYE)
            await self._err.aclose(_GOODBYE)
        return code

    def _continue(self, client: BridgeClient) -> int:
        """Take over what earlier runs left in the store, and open the receipts file.

        The open store excludes other runs, so no other run writes the receipts. Return 0, or 2 if
        the receipts file cannot be used.
        """
        earlier = client.pending()
        if earlier:
            self._say(f"store: going on with {len(earlier)} of earlier runs")
        for receipt in earlier:
            self._wait_for(Waiting(f"key {receipt.idempotency_key}", receipt, is_earlier=True))
        if self._arguments.receipts is not None:
            try:
                self._receipts = Receipts(self._arguments.receipts)
            except (ConfigError, StoreError) as error:
                self._say(f"resilient-bridge pipe: receipts: {error.failure}")
                return USAGE
            if self._receipts.notice:
                self._noticed = self._receipts.notice
                self._say(f"receipts: {self._noticed}")
        return OK

    async def _play(self, client: BridgeClient) -> None:
        loop = asyncio.get_running_loop()
        feeder = loop.create_task(self._feed(client))
        settler = loop.create_task(self._settle())
        printer = loop.create_task(self._print(client))
        ends = [self._stop, self._out.broken]
        await _first(printer, *([] if self._arguments.keep_open else [feeder]), signals=ends)
        feeder.cancel()
        await asyncio.wait([feeder])
        if not feeder.cancelled():
            feeder.result()
        self._waiting.put_nowait(None)
        seconds: float = self._arguments.drain
        self._say(f"drain: at most {seconds:g} s for what is not confirmed yet")
        until = loop.time() + seconds
        await _first(settler, signals=[self._abort], seconds=seconds)
        if not self._stop.is_set() and not self._out.is_broken and not printer.done():
            await _first(
                signals=[self._reached, self._stop, self._out.broken], seconds=until - loop.time()
            )
        # a message printed after the store is closed would be printed again by the next run
        if self._store is not None:
            await self._catch_up(client)
            printer.cancel()
            await asyncio.wait([printer])
        await client.aclose(drain=0)
        await settler
        await asyncio.wait([printer], timeout=_GOODBYE)
        if printer.done() and not printer.cancelled():
            printer.result()
        printer.cancel()
        if self._stored:
            where = "in the store: the next run with it goes on with them"
            if client.health().store_failed:
                where = "by this run alone: the store has failed, and its line above says where they are"
            self._say(f"kept: {len(self._stored)} {where}")

    def _code(self) -> int:
        if self._failed:
            return FAILED
        if self._unconfirmed or self._stored:
            return UNCONFIRMED
        if self._refused:
            return REFUSED
        return (
            OK
            if self._reached.is_set() or self._stop.is_set() or self._out.is_broken
            else NOT_REACHED
        )

    def _signalled(self) -> None:
        if self._stop.is_set():
            self._abort.set()  # a second signal ends the drain
        self._stop.set()

    # ---- stdin
    async def _feed(self, client: BridgeClient) -> None:
        number = self._receipts.lines if self._receipts is not None else 0
        async for line in lines_of(0):
            self._number = number = number + 1
            dealt: tuple[Dealt, str | None] = "empty", None
            try:
                if line is LINE_TOO_LONG or line.strip():
                    dealt = await self._take(client, line, number)
            except _ON_THIS_LINE as error:
                dealt = "refused", None
                self._refused += 1
                self._say(f"refused: {_about(number, error)}")
            except BridgeError as error:  # the client has ended, or the store refuses
                self._unconfirmed += 1
                self._say(f"not sent: {_about(number, error)}")
                return
            if not self._book(*dealt, number):
                return

    async def _take(self, client: BridgeClient, line: bytes, number: int) -> tuple[Dealt, str]:
        if line is LINE_TOO_LONG:
            raise bad_line(number, ("$", "at most 16 MiB", "more"))
        if self._forms.frames:
            outgoing = parse_frame(line, number, has_types=self._forms.types)
        else:
            outgoing = parse_line(line, number)
        key = outgoing.idempotency_key
        if self._is_envelope and not isinstance(outgoing.payload, bytes):
            key = key or outgoing.payload.get("idempotency_key")
        if key is None and self._receipts is not None:
            key = self._receipts.key_of(line)
        is_known = isinstance(key, str) and _is_known(client, key)
        if outgoing.type:
            receipt = await client.send(
                outgoing.type, outgoing.payload, idempotency_key=key, ttl=outgoing.ttl
            )
        else:
            receipt = await client.send(outgoing.payload, idempotency_key=key)
        self._sent += 1
        self._wait_for(Waiting(f"line {number}", receipt))
        return "known" if is_known else "accepted", receipt.idempotency_key

    def _book(self, state: Dealt, key: str | None, number: int) -> bool:
        try:
            if self._receipts is not None:
                self._receipts.add(state, key)
                if self._receipts.notice != self._noticed:
                    self._noticed = self._receipts.notice
                    self._say(f"receipts: {self._noticed}")
        except (OSError, BridgeError) as error:
            self._failed = True
            why = words_of(error) if isinstance(error, OSError) else str(error.failure)
            self._say(f"failed: line {number} is {state}, and its receipt cannot be written: {why}")
            return False
        return True

    def _wait_for(self, waiting: Waiting) -> None:
        identity = waiting.receipt.id
        if identity in self._reported_early:
            self._reported_early.remove(identity)
            waiting.is_reported = True
        else:
            self._named.setdefault(identity, []).append(waiting)
        self._waiting.put_nowait(waiting)

    def report_outcomes(self, outcomes: list[tuple[Receipt, str | None]]) -> None:
        """Write the lines about these outcomes, before the store records them as final: a run that
        is killed in between leaves them to the next one.
        """
        has_lines = False
        for receipt, how in outcomes:
            named = self._named.pop(receipt.id, None)
            if named is None:  # only the line that is being sent has no name yet
                named = [Waiting(f"line {self._number}", receipt)]
                self._reported_early.add(receipt.id)
            for waiting in named:
                has_lines |= self._report_outcome(waiting, how)
        if has_lines and self._store is not None:
            # without a reader of stderr, one wait is enough
            self._is_stalled = not self._err.flush(0 if self._is_stalled else _GOODBYE)

    def _report_outcome(self, waiting: Waiting, how: str | None) -> bool:
        """Count an outcome; return whether a line was needed."""
        waiting.is_reported = True
        earlier = "earlier: " if waiting.is_earlier else ""
        failure = waiting.receipt.failure
        if failure is not None:
            self._unconfirmed += 1
            self._say(f"{earlier}not confirmed: {waiting.name}: {failure}")
            return True
        self._confirmed += 1
        if earlier:
            self._say(f"{earlier}{waiting.name}: confirmed ({how})")
        return waiting.is_earlier

    async def _settle(self) -> None:
        while (waiting := await self._waiting.get()) is not None:
            how: str | None = None
            with suppress(BridgeError):
                how = await waiting.receipt.confirmed()
            if waiting.is_reported:
                continue
            self._named.pop(waiting.receipt.id, None)
            state = waiting.receipt.state
            if how is None and self._store is not None and state in self._open:
                text = "sent" if state == "queued" else "confirmed"
                self._stored[waiting.receipt.idempotency_key] = None
                self._say(f"kept: {waiting.name}: not {text} yet")
            else:
                self._report_outcome(waiting, how)

    # ---- stdout
    async def _print(self, client: BridgeClient) -> None:
        try:
            async for message in client:
                self._is_printing = True
                self._received += 1
                await self._out.write(print_message(message, is_envelope=self._is_envelope))
                if self._store is not None:
                    await self._printed()
                self._is_printing = False
        except BridgeError as error:
            self._failed = True
            self._say(f"failed: {error.failure}")

    async def _printed(self) -> None:
        """Wait until the message is written to stdout.

        The request for the next message marks this one as read, which the store saves.
        """
        await self._out.written()
        if self._out.is_broken:
            await asyncio.Event().wait()  # stdout is closed: the next run prints the message

    async def _catch_up(self, client: BridgeClient) -> None:
        """Wait until the received messages are printed, at most two seconds.

        Those that are not printed are left to the next run.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(_GOODBYE):
                while (self._is_printing or client.health().unread) and not self._out.is_broken:  # noqa: ASYNC110 -- there is no event for it
                    await asyncio.sleep(_LOOK_AGAIN)

    # ---- stderr
    def _status(self) -> StatusLine:
        """Return the progress line.

        It is drawn only if stdin and stdout are no terminals, where it would break their lines.
        """
        is_free = (
            can_be_cleared(sys.stderr)
            and not is_terminal(sys.stdin)
            and not is_terminal(sys.stdout)
        )
        self._status_line = StatusLine(
            lambda text: self._err.put(text, end=""),
            lambda: (
                f"{self._state}; sent {self._sent}, confirmed {self._confirmed}, received {self._received}"
            ),
            lambda: columns(sys.stderr) if is_free else None,
        )
        return self._status_line

    def _say(self, text: str) -> None:
        clear = CLEAR if self._status_line is not None and self._status_line.is_drawn else ""
        self._err.put(clear + fitted(text, columns(sys.stderr)))

    def _tell_omitted(self, kind: str, number: int) -> None:
        self._say(f"omitted: {number} more lines of {kind} within {PER:g} s")

    def tell_gap(self, gap: Gap) -> None:
        """Report on stderr that messages are, or may be, missing from stdout."""
        if self._rated.admits("gap"):
            self._say(line_of_gap(gap))

    def _tell(self, event: events.Event) -> None:
        if isinstance(event, events.StateChanged):
            self._state = event.state.value
            if event.state is BridgeState.READY:
                self._reached.set()
        line = line_of(event)
        if line is not None and self._rated.admits(name_in_words(event)):
            self._say(line)


async def _first(
    *tasks: asyncio.Task[None], signals: Sequence[asyncio.Event], seconds: float | None = None
) -> None:
    """Wait until one of the tasks has ended, one of the events is set, or the time is up.

    The tasks continue.
    """
    watchers = [asyncio.create_task(event.wait()) for event in signals]
    try:
        await asyncio.wait(
            [*tasks, *watchers], timeout=seconds, return_when=asyncio.FIRST_COMPLETED
        )
    finally:
        for watcher in watchers:
            watcher.cancel()


def _is_known(client: BridgeClient, key: str) -> bool:
    """Return whether a send with this key would only return the receipt of an earlier one."""
    try:
        return client.receipt(key).state in _STANDING
    except SessionError:
        return False


def _about(number: int, error: BridgeError) -> str:
    text = str(error.failure)
    return text if text.startswith(f"line {number}:") else f"line {number}: {text}"
