"""What `send()` returns: the outcome of one message, to inspect, wait for, or prevent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal

from ..failure import (
    Failure,
)
from ..failure.teaching import TeachesNames, taught
from ..protocol import EntryState
from ..values.fields import Seconds, optional_seconds


if TYPE_CHECKING:
    from ..protocol import Entry
    from .driver import Driver


ReceiptState = Literal[
    "queued", "written", "confirmed", "expired", "dropped", "withdrawn", "dead", "unknown"
]


class Receipt(TeachesNames):
    """The handle of one send and its outcome.

        receipt = await bridge.send("tool_result", {"content": "ok"})
        print(await receipt.confirmed(timeout=30))      # applied
        print(receipt.state)      # confirmed

    Only `withdraw` changes anything.
    """

    __slots__ = ("_driver", "_entry")

    def __init__(self, entry: Entry, driver: Driver) -> None:
        self._entry = entry
        self._driver = driver

    def __repr__(self) -> str:
        """A status line: type, state, key."""
        return f"<Receipt {self._entry.type} {self.state} key={self.idempotency_key}>"

    @property
    def state(self) -> ReceiptState:
        """`queued` (provably not sent), `written` (handed out, no answer yet), or how it ended.

        Where nothing confirms a send, `written` is how it ends once a pong shows that it left this
        machine.
        """
        return self._entry.state.value

    @property
    def idempotency_key(self) -> str:
        """The key that every resend of this message carries."""
        return self._entry.key

    @property
    def id(self) -> str:
        """The message's id in the protocol."""
        return self._entry.id

    @property
    def type(self) -> str:
        """The message's type."""
        return self._entry.type

    @property
    def failure(self) -> Failure | None:
        """Why it was not confirmed, as `confirmed()` raises it.

        None while that is open, and once it is confirmed.
        """
        entry = self._entry
        return (
            self._failure()
            if entry.is_settled and entry.state is not EntryState.CONFIRMED
            else None
        )

    @property
    def sends(self) -> int:
        """How often it was handed to a connection.

        0 while nothing can have arrived, 2 after one resend.

        A message that an earlier process handed out counts as 1, because a durable store does not
        count resends.
        """
        return self._entry.sends

    @taught
    async def confirmed(self, timeout: Seconds | None = None) -> Literal["applied", "read"]:  # noqa: ASYNC109 -- the wait itself is the operation
        """Wait for the outcome: `applied` (the server answered or acknowledged it) or `read` (a later ping was answered).

        Raises:

        - NotDeliveredError: it expired, was dropped or withdrawn; it was never sent.
        - The server's own error if it refused the message, as `request` does (its code, violations
          and advice).
        - ProtocolError: it killed its connection again and again.
        - OutcomeUnknownError: it may have arrived and must not be repeated; or it left this machine,
          and nothing confirms more.
        - InboxFullError: its answer could not be read.
        - AttemptTimeoutError after `timeout` seconds, which changes nothing.
        """
        self._driver.guard.check()
        try:
            async with asyncio.timeout(optional_seconds("confirmed.timeout", timeout)):
                await self._driver.settled(self._entry)
        except TimeoutError:
            if not self._entry.is_settled:
                raise self._driver.error(self._late()) from None
        return self._outcome()

    def _late(self) -> Failure:
        text = f"{self._entry.type} is still {self.state} after the timeout"
        strays = self._driver.session.outbound.stray_acks
        if not strays or self._entry.state is not EntryState.WRITTEN:
            return Failure.of("SYS_TIMEOUT", text)
        text += f", and {strays} acknowledgements fitted no message of ours (health().stray_acks)"
        return Failure.of("SYS_TIMEOUT", text, suggestions=(_STRAYS,))

    def _why(self) -> tuple[str, Failure | None]:
        """Return why it ended so, in words, and the failure of the client if that is why."""
        fatal = self._driver.session.failure if self._entry.reason == "closed" else None
        reason = self._entry.reason if fatal is None else f"the client has ended: {fatal.message}"
        return reason, fatal

    def _outcome(self) -> Literal["applied", "read"]:
        entry = self._entry
        if entry.state is EntryState.CONFIRMED and entry.confirmation is not None:
            return entry.confirmation
        raise self._driver.error(self._failure())

    def _failure(self) -> Failure:
        entry = self._entry
        if entry.reason == "kept":
            note = "not sent" if entry.state is EntryState.QUEUED else "not confirmed"
            text = f"{entry.type} was {note} when the client ended: it is in the store, and the next client goes on with it"
            return Failure.of("SYS_OUTCOME_UNKNOWN", text)
        if entry.failure is not None and not entry.is_poison:
            return entry.failure
        if entry.state is EntryState.DEAD:
            why, loss = entry.reason, entry.failure
            if loss is not None:
                why = loss.message
            return Failure.of(
                "PROTO_VIOLATION",
                f"{entry.type} was set aside: {why}",
                cause=None if loss is None else loss.cause,
                history=() if loss is None else (loss,),
            )
        reason, fatal = self._why()
        cause = None if fatal is None else fatal.cause
        if entry.state in _NEVER_SENT:
            text = f"{entry.type} was not sent: {reason}"
            return Failure.of("SYS_NOT_DELIVERED", text, cause=cause)
        text = f"{entry.type} was handed out and never confirmed: {reason}"
        return Failure.of("SYS_OUTCOME_UNKNOWN", text, cause=cause)

    @taught
    def withdraw(self) -> bool:
        """Withdraw the message.

        True: it was never sent and never will be; False: it was, or its outcome is known.
        """
        self._driver.guard.check()
        withdrawn = self._driver.session.outbound.outbox.withdraw(self._entry)
        if withdrawn:
            self._driver.after(self._driver.now())
        return withdrawn


_STRAYS = (
    "compare the name in an acknowledgement with the frame that was sent: Acked(ids=) means Send.key, Send.id or Send.number; "
    "Acked(echo=) means what the dialect's echo= returns for that frame"
)
_NEVER_SENT = frozenset({EntryState.EXPIRED, EntryState.DROPPED, EntryState.WITHDRAWN})
