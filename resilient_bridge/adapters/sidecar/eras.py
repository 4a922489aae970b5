"""Translates between the eras of MCP: sessions opened by `initialize`, and requests of 2026-07-28.

`LegacyClient` serves a client with a session at a server of 2026-07-28, `ModernClient` the reverse.
Both do no I/O: they return messages for the server and for the client, and map request ids. Rule:
a request that the other era cannot express is answered here or refused with the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from . import message
from .lists import LISTS
from .message import list_of, object_of


if TYPE_CHECKING:
    from collections.abc import Mapping

    from .message import Message


MODERN: Final = "2026-07-28"
VERSION: Final = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
CLIENT: Final = "io.modelcontextprotocol/clientInfo"
_SERVER: Final = "io.modelcontextprotocol/serverInfo"
_LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
LISTEN: Final = "subscriptions/listen"
_MOST_ROUNDS: Final = 10  # times that a server may ask for more input before one answer
_REFUSED: Final = -32601
_INVALID: Final = -32600
CHANGES: Final = {
    "notifications/tools/list_changed": ("tools", "toolsListChanged"),
    "notifications/prompts/list_changed": ("prompts", "promptsListChanged"),
    "notifications/resources/list_changed": ("resources", "resourcesListChanged"),
}
_CACHED: Final = frozenset({*LISTS, "resources/read", "server/discover"})


class Out(NamedTuple):
    """The messages that follow from a message.

    `to_client` pairs each with the id of the client's request that it belongs to, None for none.
    """

    to_server: list[Message]
    to_client: list[tuple[Message, int | None]]


class _Asking(NamedTuple):
    """A client's request for which the server has requested input."""

    request: Message
    answers: dict[str, Any]
    keys: dict[str, str]  # the server's key of an input, by the id of our request
    state: Any


class LegacyClient:
    """Translates between a client with a session and a server of 2026-07-28.

    `opening` is the client's `initialize`, `discovered` the server's answer to `server/discover`.
    """

    def __init__(self, opening: Message, discovered: Message) -> None:
        self._opening, self._discovered = opening, discovered
        self._numbers = -1_000  # ids of our own; those of the client are not negative
        # the id of a client's request, by our id of its repetition with input
        self._rounds: dict[int, int] = {}
        self._asking: dict[int, _Asking] = {}
        # the id of a client's request, by the id of our request for its input
        self._asked: dict[str, int] = {}
        # the client's pending requests by id, and how often the server requested input
        self._sent: dict[int, tuple[Message, int]] = {}
        self._log_level: str | None = None
        self._uris: dict[str, None] = {}
        self._listening: int | None = None

    def opened(self) -> Message:
        """Return the answer to the client's `initialize`."""
        found = self._discovered.result
        answer: dict[str, Any] = {
            "protocolVersion": self._opening.params.get("protocolVersion", "2025-11-25"),
            "capabilities": found.get("capabilities", {}),
            "serverInfo": object_of(found.get("_meta")).get(
                _SERVER, {"name": "unnamed", "version": "0"}
            ),
        }
        if "instructions" in found:
            answer["instructions"] = found["instructions"]
        return message.result(self._opening.id, answer)

    def from_client(self, received: Message) -> Out:
        if received.is_answer:
            return self._input_came(received)
        if received.is_notification:
            return self._noticed(received)
        at_once = self._answer_at_once(received)
        if at_once is not None:
            return at_once
        number = received.id
        self._sent[number] = received, 0
        return Out([self._enveloped(received)], [])

    def _noticed(self, received: Message) -> Out:
        if received.method == "notifications/initialized":
            return Out(self._listen(), [])
        if received.method == "notifications/cancelled":
            number: Any = received.params.get("requestId")
            self._sent.pop(number, None)
            # input that still comes for it is ignored
            if (asking := self._asking.pop(number, None)) is not None:
                for question in asking.keys:
                    self._asked.pop(question, None)
            for ours, theirs in self._rounds.items():
                if theirs == number:
                    return Out([received.with_request_id(ours)], [])
            return Out([received], [])
        return Out([], [])  # 2026-07-28 has no other of a client

    def _answer_at_once(self, received: Message) -> Out | None:
        """Answer a request that 2026-07-28 does not have; return None for any other."""
        to_server: list[Message] = []
        if received.method == "logging/setLevel":
            level = received.params.get("level")
            self._log_level = level if isinstance(level, str) else None
        elif received.method in ("resources/subscribe", "resources/unsubscribe"):
            if received.method == "resources/subscribe":
                self._uris[received.name] = None
            else:
                self._uris.pop(received.name, None)
            to_server = self._listen()
        elif received.method != "ping":
            return None
        return Out(to_server, [(message.result(received.id, {}), None)])

    def _listen(self) -> list[Message]:
        """Return the messages that replace the listen stream by one for what is wanted now."""
        offered = object_of(self._discovered.result.get("capabilities"))
        wanted: dict[str, Any] = {
            name: True for capability, name in CHANGES.values() if capability in offered
        }
        if self._uris:
            wanted["resourceSubscriptions"] = list(self._uris)
        before, self._listening = self._listening, None
        found: list[Message] = []
        if before is not None:
            found.append(
                message.notification(
                    "notifications/cancelled", {"requestId": before, "_meta": self._envelope()}
                )
            )
        if wanted:
            self._listening = self._number()
            found.append(
                self._enveloped(message.request(self._listening, LISTEN, {"notifications": wanted}))
            )
        return found

    def from_server(self, received: Message, about: int | None) -> Out:
        if not received.is_answer:
            return self._noticed_by_server(
                received, self._rounds.get(about, about) if about is not None else None
            )
        number = received.id
        if number == self._listening:
            self._listening = None
            return Out([], [])
        theirs = self._rounds.pop(number, number)
        sent = self._sent.get(theirs)
        if sent is not None and received.result.get("resultType") == "input_required":
            return self._input_wanted(theirs, sent, received)
        self._sent.pop(theirs, None)
        return Out([], [(received.with_id(theirs), None)])

    def _noticed_by_server(self, received: Message, about: int | None) -> Out:
        if received.is_request:  # 2026-07-28 has none
            return Out(
                [message.error(received.id, _REFUSED, "this era has no requests of a server")], []
            )
        if received.method == ACKNOWLEDGED:
            return Out([], [])
        if SUBSCRIPTION in received.meta:
            params = {name: value for name, value in received.params.items() if name != "_meta"}
            received = message.notification(received.method, params or None)
        return Out([], [(received, about)])

    def unanswered(self, number: int) -> int | None:
        """Forget a request without an answer; return its id at the client, None for one of ours."""
        if number == self._listening:
            self._listening = None
            return None
        theirs = self._rounds.pop(number, number)
        self._sent.pop(theirs, None)
        return theirs

    # ---- input that a server wants before it answers ------------------------------------------------------------

    def _input_wanted(self, number: int, sent: tuple[Message, int], received: Message) -> Out:
        request, rounds = sent
        wanted = object_of(received.result.get("inputRequests"))
        if rounds >= _MOST_ROUNDS:
            del self._sent[number]
            text = f"the server asked for input more than {_MOST_ROUNDS} times"
            return Out([], [(message.error(number, _INVALID, text), None)])
        self._sent[number] = request, rounds + 1
        asking = _Asking(request, {}, {}, received.result.get("requestState"))
        self._asking[number] = asking
        found: list[tuple[Message, int | None]] = []
        for key, one in wanted.items():
            ours = f"input{self._number()}"
            asking.keys[ours] = key
            self._asked[ours] = number
            fields = object_of(one)
            found.append(
                (
                    message.request(
                        ours, str(fields.get("method")), object_of(fields.get("params"))
                    ),
                    number,
                )
            )
        return Out(self._again(number) if not found else [], found)

    def _input_came(self, answer: Message) -> Out:
        number = self._asked.pop(str(answer.id), None)
        asking = self._asking.get(number) if number is not None else None
        if number is None or asking is None:
            return Out([], [])
        key = asking.keys.pop(str(answer.id))
        if "error" in answer.fields:
            del self._asking[number]
            self._sent.pop(number, None)
            for other in asking.keys:
                self._asked.pop(other, None)
            return Out([], [(answer.with_id(number), None)])
        asking.answers[key] = answer.fields["result"]
        return Out([] if asking.keys else self._again(number), [])

    def _again(self, number: int) -> list[Message]:
        asking = self._asking.pop(number)
        request = asking.request
        ours = self._number()
        self._rounds[ours] = number
        if asking.answers:
            request = request.with_member(("params", "inputResponses"), asking.answers)
        if asking.state is not None:
            request = request.with_member(("params", "requestState"), asking.state)
        return [self._enveloped(request.with_id(ours))]

    # ---- what each request carries ------------------------------------------------------------------------------

    def _envelope(self) -> dict[str, Any]:
        offered = self._opening.params
        found: dict[str, Any] = {VERSION: MODERN, CAPABILITIES: offered.get("capabilities", {})}
        if "clientInfo" in offered:
            found[CLIENT] = offered["clientInfo"]
        if self._log_level is not None:
            found[_LOG_LEVEL] = self._log_level
        return found

    def _enveloped(self, request: Message) -> Message:
        if not isinstance(request.fields.get("params"), dict):
            return request.with_member(("params",), {"_meta": self._envelope()})
        if not isinstance(request.params.get("_meta"), dict):
            return request.with_member(("params", "_meta"), self._envelope())
        for name, value in self._envelope().items():
            request = request.with_member(("params", "_meta", name), value)
        return request

    def _number(self) -> int:
        self._numbers -= 1
        return self._numbers


class ModernClient:
    """Translates between a client of 2026-07-28 and a server with a session.

    `opened` is the server's answer to `initialize`.
    """

    def __init__(self, opened: Message) -> None:
        self._opened = opened
        self._numbers = -1_000
        # what each listen stream of the client wants, by the id of its request; those that wait
        # for answers to `resources/subscribe` are not acknowledged yet
        self._listens: dict[int, Mapping[str, Any]] = {}
        self._waiting: dict[int, dict[str, Any]] = {}
        self._cached: set[int] = set()
        # our own `resources/subscribe` requests: the listen stream and the URI of each
        self._own: dict[int, tuple[int, Any]] = {}

    def from_client(self, received: Message) -> Out:
        if received.is_notification and received.method == "notifications/cancelled":
            number = received.params.get("requestId")
            if isinstance(number, int) and (
                self._listens.pop(number, None) is not None
                or self._waiting.pop(number, None) is not None
            ):
                return Out([], [])
        if not received.is_request:
            return Out([received], [])
        number = received.id
        if received.method == "server/discover":
            return Out([], [(message.result(number, self._discovered()), None)])
        if received.method == LISTEN:
            return self._listen(received)
        if received.method in _CACHED:
            self._cached.add(number)
        return Out([received], [])

    def _listen(self, received: Message) -> Out:
        wanted = dict(object_of(received.params.get("notifications")))
        self._waiting[received.id] = wanted
        to_server: list[Message] = []
        for uri in list_of(wanted.get("resourceSubscriptions")):
            self._numbers -= 1
            self._own[self._numbers] = received.id, uri
            to_server.append(message.request(self._numbers, "resources/subscribe", {"uri": uri}))
        return Out(to_server, self._acknowledged(received.id))

    def _acknowledged(self, number: int) -> list[tuple[Message, int | None]]:
        """Return the acknowledgement of a listen stream, once the server has answered about it."""
        if number not in self._waiting or any(stream == number for stream, _ in self._own.values()):
            return []
        wanted = self._listens[number] = self._waiting.pop(number)
        params = {"notifications": wanted, "_meta": {SUBSCRIPTION: number}}
        return [(message.notification(ACKNOWLEDGED, params), number)]

    def subscribed(self, number: int, *, is_accepted: bool) -> Out:
        """Handle the answer to one of our requests; the client is not promised what was refused."""
        stream, uri = self._own.pop(number)
        if not is_accepted and stream in self._waiting:
            wanted = self._waiting[stream]
            wanted["resourceSubscriptions"] = [
                one for one in wanted["resourceSubscriptions"] if one != uri
            ]
        return Out([], self._acknowledged(stream))

    def from_server(self, received: Message, about: int | None) -> Out:
        if received.is_request:
            return self._asked_by_server(received)
        if received.is_notification:
            return Out([], self._noticed(received, about))
        number = received.id
        if number in self._own:
            return self.subscribed(number, is_accepted="result" in received.fields)
        if "result" in received.fields and "resultType" not in received.result:
            received = received.with_member(("result", "resultType"), "complete")
        if number in self._cached and "result" in received.fields:
            for name, value in (("ttlMs", 0), ("cacheScope", "private")):
                if name not in received.result:
                    received = received.with_member(("result", name), value)
        self._cached.discard(number)
        return Out([], [(received, None)])

    def _asked_by_server(self, received: Message) -> Out:
        if received.method == "ping":
            return Out([message.result(received.id, {})], [])
        text = f"{received.method}: the client speaks MCP {MODERN}, in which a server cannot ask; start it with an earlier version"
        return Out([message.error(received.id, _REFUSED, text)], [])

    def _noticed(self, received: Message, about: int | None) -> list[tuple[Message, int | None]]:
        change = CHANGES.get(received.method)
        if change is None and received.method != "notifications/resources/updated":
            return [(received, about)]
        found: list[tuple[Message, int | None]] = []
        for number, wanted in self._listens.items():
            is_wanted = (
                wanted.get(change[1])
                if change is not None
                else received.name in list_of(wanted.get("resourceSubscriptions"))
            )
            if is_wanted:
                params = {**received.params, "_meta": {**received.meta, SUBSCRIPTION: number}}
                found.append((message.notification(received.method, params), number))
        return found

    def unanswered(self, number: int) -> int | None:
        """Forget a request without an answer; return its id at the client, None for one of ours."""
        if number in self._own:
            return None
        self._cached.discard(number)
        return number

    def _discovered(self) -> dict[str, Any]:
        found = self._opened.result
        answer: dict[str, Any] = {
            "resultType": "complete",
            "supportedVersions": [MODERN],
            "capabilities": found.get("capabilities", {}),
            "ttlMs": 0,
            "cacheScope": "private",
        }
        if "instructions" in found:
            answer["instructions"] = found["instructions"]
        if "serverInfo" in found:
            answer["_meta"] = {_SERVER: found["serverInfo"]}
        return answer
