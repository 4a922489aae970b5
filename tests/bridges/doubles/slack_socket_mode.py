"""Slack Socket Mode: single-use tickets, envelopes that the client acknowledges, redelivery instead of a replay.

The status that refuses a ticket (403), the error of `apps.connections.open` once the link is disabled, and that a
socket which was warned gets events only if there is no other, are this double's own. Events that were not
acknowledged survive a restart: they wait elsewhere than in the socket's process.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.bridges.doubles.base import Double
from tests.bridges.doubles.connection import Connection, decoded


class _Client(Connection):
    warned = False


class _Delivery:
    """One event on its way."""

    def __init__(self, number: int, payload: dict[str, Any], envelope_id: str) -> None:
        self.number, self.payload, self.envelope_id = number, payload, envelope_id
        self.attempt = 0
        self.reason = ""
        self.settled = False


class SlackSocketMode(Double):
    """Slack's side of one app. Each event goes to one of the sockets; a channel is a channel, None is "C1".

    `ack_within`: seconds for an acknowledgement. `retries`: what is waited before each further attempt.
    `envelope_ids`: "same" or "new" at a further attempt. `closes_after`: seconds from a `disconnect` to the end.
    `abandoned`: the numbers of events that no attempt brought. `effects` are the acknowledgements that settled an event.
    """

    connection_class = _Client

    def __init__(
        self,
        rng: random.Random,
        *,
        app_token: str = "xapp-1",
        ack_within: float = 3.0,
        retries: tuple[float, ...] = (0.0, 60.0, 300.0),
        envelope_ids: str = "same",
        max_sockets: int = 10,
        closes_after: float = 10.0,
        notices_after: float = 0.0,
    ) -> None:
        super().__init__(rng, notices_after=notices_after)
        self.app_token, self.ack_within, self.retries = app_token, ack_within, retries
        self.envelope_ids, self.max_sockets, self.closes_after = (
            envelope_ids,
            max_sockets,
            closes_after,
        )
        self.link_disabled = False
        self.tickets: set[str] = set()
        self.abandoned: list[int] = []
        self._deliveries: dict[
            str, _Delivery
        ] = {}  # by envelope id; an id that was used before stays valid

    def new_path(self) -> str:
        """Return a path with a fresh ticket, as `apps.connections.open` gives out."""
        ticket = self.uuid()
        self.tickets.add(ticket)
        return f"/link/?ticket={ticket}&app_id=A1"

    def rest(self, method: str, target: str, headers: Mapping[str, str]) -> tuple[int, Any] | None:
        """`/api/apps.connections.open` with the app's token: a URL for one attempt."""
        if urlsplit(target).path != "/api/apps.connections.open":
            return None
        lower = {name.lower(): value for name, value in headers.items()}
        if lower.get("authorization") != f"Bearer {self.app_token}":
            return 200, {"ok": False, "error": "invalid_auth"}
        if self.link_disabled:
            return 200, {"ok": False, "error": "link_disabled"}
        return 200, {"ok": True, "url": f"ws://{lower['host']}{self.new_path()}"}

    def refuse(self, path: str, headers: Mapping[str, str]) -> int | None:
        """Use up the ticket."""
        ticket = parse_qs(urlsplit(path).query).get("ticket", [""])[0]
        if ticket not in self.tickets or self.link_disabled:
            return 403
        self.tickets.remove(ticket)
        return None

    async def attend(self, connection: _Client) -> None:
        """Say hello, and take acknowledgements."""
        if len(self.connections) > self.max_sockets:
            self._warn(connection, "too_many_websockets")
            return
        debug = {"host": "applink-1", "approximate_connection_time": 18_060}
        count = {"num_connections": len(self.connections), "connection_info": {"app_id": "A1"}}
        connection.say({"type": "hello", **count, "debug_info": debug})
        async for frame in connection.frames():
            message = decoded(frame)
            delivery = (
                self._deliveries.get(message.get("envelope_id", ""))
                if isinstance(message, dict)
                else None
            )
            if delivery is not None and not delivery.settled:
                delivery.settled = True
                self.effects.append(message)

    async def publish(self, number: int, channel: str | None = None) -> None:
        """Somebody writes the number in a channel."""
        self.record(number, channel)
        event = {
            "type": "message",
            "text": f"message {number}",
            "channel": channel or "C1",
            "number": number,
        }
        event["ts"] = f"{self.moment().timestamp():.6f}"
        payload = {"type": "event_callback", "event_id": f"Ev{self.token(9)}", "event": event}
        self._deliver(_Delivery(number, payload, self.uuid()))

    def disconnect(self, reason: str = "warning") -> None:
        """Announce the end of each socket that is open now: "warning", "refresh_requested" or "link_disabled" (for ever)."""
        self.link_disabled |= reason == "link_disabled"
        for client in [*self.connections]:
            if isinstance(client, _Client) and (self.link_disabled or not client.warned):
                self._warn(client, reason)

    def forget(self) -> None:
        """Tickets of the process that died are not known to the next one."""
        self.tickets.clear()

    def _warn(self, client: _Client, reason: str) -> None:
        client.warned = True
        client.say({"type": "disconnect", "reason": reason, "debug_info": {"host": "applink-1"}})
        if reason in {"link_disabled", "too_many_websockets"}:
            client.close()
        else:
            client.later(self.closes_after, client.close)

    def _deliver(self, delivery: _Delivery) -> None:
        """Make one attempt, to one socket."""
        self._deliveries[delivery.envelope_id] = delivery
        open_now = [
            client
            for client in self.connections
            if isinstance(client, _Client) and not client.closing
        ]
        clients = [client for client in open_now if not client.warned] or open_now
        if not clients:
            self._failed(delivery, delivery.attempt, "connection_failed")
            return
        envelope = {
            "envelope_id": delivery.envelope_id,
            "type": "events_api",
            "payload": delivery.payload,
            "retry_attempt": delivery.attempt,
            "retry_reason": delivery.reason,
            "accepts_response_payload": False,
        }
        self.rng.choice(clients).say(envelope)
        loop = asyncio.get_running_loop()
        loop.call_later(self.ack_within, self._failed, delivery, delivery.attempt, "timeout")

    def _failed(self, delivery: _Delivery, attempt: int, reason: str) -> None:
        """Wait for the next attempt, or give up."""
        if delivery.settled or delivery.attempt != attempt:
            return
        if attempt == len(self.retries):
            self.abandoned.append(delivery.number)
            return
        delivery.attempt, delivery.reason = attempt + 1, reason
        asyncio.get_running_loop().call_later(self.retries[attempt], self._retry, delivery)

    def _retry(self, delivery: _Delivery) -> None:
        if delivery.settled:
            return
        if self.envelope_ids == "new":
            delivery.envelope_id = self.uuid()
        self._deliver(delivery)
