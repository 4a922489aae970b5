"""`resilient-bridge pipe URL`: JSON lines from stdin over a bridge that survives, what arrives as JSON lines on stdout.

Rule: each line of input ends in one stated outcome. Silence means that it was confirmed; everything else is a line on
stderr that names its number, and the exit code says what happened at worst.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import attrs

from .. import presets
from ..client import BridgeClient, Receipt
from ..errors import BridgeError, ConfigError, OutboxFullError, ProtocolError
from ..protocol import Gap
from ..telemetry import events, listen
from .options import token_from
from .pipe_lines import bad_line, parse_line, print_message
from .streams import LINE_TOO_LONG, Output, lines_of


__all__ = ["run"]

OK, FAILED, USAGE, UNCONFIRMED, REFUSED = range(5)
_GOODBYE: Final = 2.0  # seconds for the last lines of output
_ON_THIS_LINE: Final = (ProtocolError, OutboxFullError, ConfigError)


def run(arguments: argparse.Namespace) -> int:
    """Run until the end of input, a signal, the end of the reader, or a fatal error; then drain."""
    try:
        token = token_from(arguments.token_env)
        return asyncio.run(_run(arguments, token))
    except (LookupError, ConfigError) as error:
        text = str(error.failure) if isinstance(error, ConfigError) else str(error.args[0])
        print(f"resilient-bridge pipe: {text}", file=sys.stderr)
        return USAGE


async def _run(arguments: argparse.Namespace, token: str | None) -> int:
    policy = getattr(presets, arguments.preset)
    policy = policy.evolve(
        outbox=attrs.evolve(policy.outbox, overflow="block")
    )  # a full outbox stops reading stdin
    pipe = Pipe(drain=arguments.drain, keep_open=arguments.keep_open)
    client = BridgeClient(
        arguments.url,
        token=token,
        session_id=arguments.session,
        policy=policy,
        pin=arguments.pin,
        on_gap=pipe.tell_gap,
    )
    return await pipe.run(client)


class Pipe:
    """One run: a feeder (stdin to sends), a settler (what became of each), a printer (messages to stdout)."""

    def __init__(self, *, drain: float, keep_open: bool) -> None:
        self._drain = drain
        self._keep_open = keep_open
        self._out = Output(1)
        self._err = Output(2)
        self._receipts: asyncio.Queue[tuple[int, Receipt] | None] = asyncio.Queue()
        self._stop = asyncio.Event()
        self._abort = asyncio.Event()
        self._refused = 0
        self._unconfirmed = 0
        self._failed = False

    async def run(self, client: BridgeClient) -> int:
        """Run it and return the exit code."""
        loop = asyncio.get_running_loop()
        with suppress(NotImplementedError):  # an event loop without signal handlers
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self._signalled)
        with listen(self._tell):
            async with client:
                feeder = loop.create_task(self._feed(client))
                settler = loop.create_task(self._settle())
                printer = loop.create_task(self._print(client))
                ends = [self._stop, self._out.broken]
                await _first(printer, *([] if self._keep_open else [feeder]), signals=ends)
                feeder.cancel()
                await asyncio.wait([feeder])
                if not feeder.cancelled():
                    feeder.result()
                self._receipts.put_nowait(None)
                self._say(f"drain: at most {self._drain:g} s for what is not confirmed yet")
                await _first(settler, signals=[self._abort], seconds=self._drain)
                await client.aclose(drain=0)
                await settler
            await asyncio.wait([printer], timeout=_GOODBYE)
            if printer.done():
                printer.result()
            printer.cancel()
        await self._out.flush(_GOODBYE)
        await self._err.flush(_GOODBYE)
        return self._code()

    def _code(self) -> int:
        if self._failed:
            return FAILED
        return UNCONFIRMED if self._unconfirmed else REFUSED if self._refused else OK

    def _signalled(self) -> None:
        if self._stop.is_set():
            self._abort.set()  # the second time means it
        self._stop.set()

    # ---- stdin
    async def _feed(self, client: BridgeClient) -> None:
        number = 0
        async for line in lines_of(0):
            number += 1
            if line is not LINE_TOO_LONG and not line.strip():
                continue
            try:
                if line is LINE_TOO_LONG:
                    raise bad_line(number, ("$", "at most 16 MiB", "more"))
                outgoing = parse_line(line, number)
                receipt = await client.send(
                    outgoing.type,
                    outgoing.payload,
                    idempotency_key=outgoing.idempotency_key,
                    ttl=outgoing.ttl,
                )
            except _ON_THIS_LINE as error:
                self._refused += 1
                self._say(f"refused: {_about(number, error)}")
            except BridgeError as error:  # the client has ended; the printer says why
                self._unconfirmed += 1
                self._say(f"not sent: {_about(number, error)}")
                return
            else:
                self._receipts.put_nowait((number, receipt))

    async def _settle(self) -> None:
        while (item := await self._receipts.get()) is not None:
            number, receipt = item
            try:
                await receipt.confirmed()
            except BridgeError as error:
                self._unconfirmed += 1
                self._say(f"not confirmed: {_about(number, error)}")

    # ---- stdout
    async def _print(self, client: BridgeClient) -> None:
        try:
            async for message in client:
                await self._out.write(print_message(message))
        except BridgeError as error:
            self._failed = True
            self._say(f"failed: {error.failure}")

    # ---- stderr
    def _say(self, text: str) -> None:
        self._err.put(text)

    def tell_gap(self, gap: Gap) -> None:
        """A hole in what stdout shows: messages are, or may be, missing here."""
        since = gap.since.isoformat() if gap.since else "unknown"
        until = gap.until.isoformat() if gap.until else "unknown"
        self._say(f"gap: {gap.verdict.value} ({gap.reason}), since {since}, until {until}")

    def _tell(self, event: events.Event) -> None:
        if isinstance(event, events.StateChanged):
            self._say(f"state: {event.state.value} ({event.reason})")
        elif isinstance(event, events.Disconnected):
            self._say(f"lost: {event.failure or event.reason}")
        elif isinstance(event, events.ReconnectScheduled):
            self._say(
                f"retry: attempt {event.attempt} in {event.wait:.1f} s: {event.failure or event.reason}"
            )
        elif isinstance(event, events.Joined):
            self._say(f"joined: {event.session_id}")
        elif isinstance(event, events.Resumed):
            self._say(f"verdict: {event.verdict.value} ({event.reason}), {event.replayed} replayed")
        elif isinstance(event, _RARE):
            self._say(f"event: {event!r}")


_RARE: Final = (
    events.Suspended,
    events.MessageDropped,
    events.MessageQuarantined,
    events.MessageRejected,
    events.ClockJumped,
    events.DuplicateConflict,
)


async def _first(
    *tasks: asyncio.Task[None], signals: Sequence[asyncio.Event], seconds: float | None = None
) -> None:
    """Wait until one of the tasks has ended, one of the events is set, or the time is up; the tasks go on."""
    watchers = [asyncio.create_task(event.wait()) for event in signals]
    try:
        await asyncio.wait([*tasks, *watchers], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for watcher in watchers:
            watcher.cancel()


def _about(number: int, error: BridgeError) -> str:
    text = str(error.failure)
    return text if text.startswith(f"line {number}:") else f"line {number}: {text}"
