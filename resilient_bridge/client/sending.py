"""How a client sends and requests.

It accepts, hands to the session, waits, and reports what is known when waiting ends.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING, Any, Final, cast

from ..failure import Failure, OutboxFullError, ProtocolError, StoreError, config_error
from ..protocol import EntryState
from ..protocol.unanswered import no_answer
from ..telemetry.events import BridgeState
from ..values.fields import Seconds, check_flag, optional_seconds
from .driver import ENDED
from .receipt import Receipt


if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..protocol import Entry, Message
    from ..protocol.policies.outbox import Outbox
    from .driver import Driver


_TURN: Final = 64  # unsent messages after which a sender waits for one turn of the loop


class Sender:
    """The sending half of a client, as `BridgeClient.send` and `BridgeClient.request` promise."""

    def __init__(self, driver: Driver, policy: Outbox) -> None:
        self._driver = driver
        self._session = driver.session
        self._policy = policy
        self._turnstile = asyncio.Lock()
        # entries that a store is about to accept
        self._accepting: dict[Entry, asyncio.Future[None]] = {}

    async def send(
        self,
        type_: str,
        payload: Mapping[str, Any] | bytes,
        *,
        key: str | None,
        ttl: Seconds | None,
        coalesce: str | None,
        volatile: bool,
    ) -> Receipt:
        """Accept a message; once the store has it, it cannot be cancelled."""
        driver, session = self._driver, self._session
        outbound = session.outbound
        if len(outbound.outbox.queued) >= _TURN and session.state is BridgeState.READY:
            # A loop that only sends lets the writer run before this message is accepted.
            await asyncio.sleep(0)
        now = driver.now()
        seconds = None if ttl is None else optional_seconds("send.ttl", ttl)
        if coalesce is not None and not isinstance(cast("object", coalesce), str):
            raise config_error(
                "send.coalesce", "a text that names what a later send replaces, or None", coalesce
            )
        if volatile is not False:
            check_flag("send.volatile", volatile)
        try:
            entry = outbound.prepare(
                type_, payload, now, key=key, ttl=seconds, coalesce=coalesce, volatile=volatile
            )
        except ProtocolError as error:
            raise driver.error(
                error.failure
            ) from error.failure.cause  # it says of which session it was
        # its key named a send that is pending or confirmed
        if outbound.known.by_id.get(entry.id) is entry:
            return await self._known(entry)
        if self._policy.overflow == "block" and (
            self._turnstile.locked() or not outbound.outbox.has_room(entry.size)
        ):
            async with self._turnstile:  # in the order of the calls, whichever finds room first
                await self._room(entry)
                # accepted under the same key while this one waited
                twin = outbound.known.standing(entry.key)
                return await self._accept(entry) if twin is None else await self._known(twin)
        return await self._accept(entry)

    async def _accept(self, entry: Entry) -> Receipt:
        driver, outbound = self._driver, self._session.outbound
        if entry.volatile and self._session.state is not BridgeState.READY:
            outbound.refuse(entry, "not connected")
            driver.after(driver.now())
            return Receipt(entry, driver)
        try:
            is_admitted = outbound.admit(entry)
        except OutboxFullError as error:
            raise driver.error(error.failure) from None
        if is_admitted:
            if not entry.volatile:
                await self._keep(entry)
            # while the store was busy: what it has accepted belongs to the next client
            if self._session.state in ENDED:
                outbound.leave(entry)
                driver.after(driver.now())
                return Receipt(entry, driver)
            outbound.outbox.add(entry)
            if entry.expires is not None:
                driver.arm(driver.now())
        driver.wake()
        return Receipt(entry, driver)

    async def _known(self, entry: Entry) -> Receipt:
        """Return the receipt of a send with the same key, once the store has accepted it."""
        while (accepting := self._accepting.get(entry)) is not None:
            await asyncio.wait([accepting])
            if entry.is_settled and entry.reason == "refused by the store":
                raise self._driver.error(
                    Failure.of("SYS_STORE_UNAVAILABLE", f"{entry.type} was not accepted")
                )
        return Receipt(entry, self._driver)

    async def _keep(self, entry: Entry) -> None:
        """Have the store accept it. A refused or cancelled send was never accepted."""
        driver, outbound = self._driver, self._session.outbound
        writing = None
        try:
            writing = driver.store.put(entry)
            if writing is not None:
                self._accepting[entry] = accepting = driver.loop.create_future()
                outbound.outbox.hold(entry)  # others look for room meanwhile
                try:
                    await writing
                finally:
                    outbound.outbox.free(entry)
                    del self._accepting[entry]
                    accepting.set_result(None)
        except StoreError as error:
            outbound.known.drop(entry)
            entry.settle(EntryState.DROPPED, reason="refused by the store")
            driver.store.settle(entry)  # a commit that failed may still have reached the disk
            driver.store_failed(error)
            raise
        except BaseException:
            # The store may have it already, or in a moment: it is removed again, so that no process
            # can send it.
            outbound.refuse(entry, "cancelled")
            driver.after(driver.now())
            raise
        if driver.is_durable:
            driver.store_works()

    async def _room(self, entry: Entry) -> None:
        outbox = self._session.outbound.outbox
        while not outbox.has_room(entry.size) and entry.size <= self._policy.max_bytes:
            await self._driver.changed()
            self._driver.check_usable()

    async def request(
        self,
        type_: str,
        payload: Mapping[str, Any],
        *,
        timeout: Seconds | None,  # noqa: ASYNC109 -- part of the operation: it decides what is known afterwards
        idempotent: bool,
    ) -> Message:
        """Send a request and return its answer.

        If the wait ends for any reason, the request is withdrawn at once.
        """
        driver = self._driver
        seconds = optional_seconds("request.timeout", timeout)
        now = driver.now()
        try:
            entry = self._session.outbound.request(
                type_,
                payload,
                now,
                idempotent=idempotent,
                timeout=inf if seconds is None else seconds,
            )
        except ProtocolError as error:
            raise driver.error(
                error.failure
            ) from error.failure.cause  # it says of which session it was
        if driver.pump is not None and len(self._session.outbound.open_requests) == 1:
            driver.pump.write_now(now)
        else:  # several share a write
            driver.wake()
        if seconds is not None:
            driver.arm_by(now.mono + seconds)
        try:
            await driver.settled(entry)
        except asyncio.CancelledError:
            self._session.outbound.give_up(entry, no_answer(entry, "cancelled"))
            driver.after(driver.now())
            raise
        if entry.answer is not None:
            return entry.answer
        assert entry.failure is not None  # noqa: S101 -- a settled request has an answer or a failure
        raise driver.error(entry.failure)
