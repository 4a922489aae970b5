"""What a bridge of somebody else refuses: our credentials, our join, our replay, our pings, a message of ours.

Rule: each refusal is understood at once and in the form that real bridges use (a fresh id, `request_type`, a socket that stays open).
"""

from __future__ import annotations

import asyncio
import json

import pytest

import resilient_bridge as rb
from tests.bridges.foreign import Mini, Watch, only_reads, quick
from tests.internals.telemetry import FeatureRefused
from tests.rows import each_row


pytestmark = [pytest.mark.real, pytest.mark.timeout(60)]
UNKNOWN = ["PROTO_INVALID_MESSAGE", "UNKNOWN_TYPE", "PROTO_UNKNOWN_TYPE"]


# -- the join, the replay and the ping ----------------------------------------------------------------------------------
@each_row("form", [{"error_ids": "fresh"}, {"error_ids": "same", "says_type": False}, {"says_type": False}],
                         ids=["request_type", "our id", "only the text"])  # fmt: skip
@each_row("code", UNKNOWN)
async def test_c01_a_join_refused_as_unknown_is_done_without(code, form):
    """READY; each later join ends UNKNOWN, is not asked for again, and all of it is told once."""
    bridge = Mini({"session_join": code, "request_replay": code}, **form)
    async with bridge.running(), Watch(bridge.url, token="t") as watch:
        await watch.client.wait_ready(5)
        await bridge.push(1)
        await watch.until(lambda: watch.read == [1])
        for number in (2, 3):
            bridge.cut()
            await bridge.push(10 * number, live=False)
            await watch.back()
            await bridge.push(number)
            await watch.until(lambda number=number: watch.read[-1] == number)
        assert watch.read == [1, "UNKNOWN no_replay", 2, "UNKNOWN no_replay", 3]
        assert bridge.types.count("session_join") == 1
        assert bridge.types.count("request_replay") == 1
        assert [event.feature for event in watch.of(FeatureRefused)] == ["join", "request_replay"]


async def test_c01_what_another_server_speaks_is_asked_again():
    """What was refused is remembered for the identity that the server states."""
    async with (
        Mini({"session_join": "UNKNOWN_TYPE"}).running() as bridge,
        Watch(bridge.url, token="t") as watch,
    ):
        await watch.client.wait_ready(5)

        async def authenticate(socket, identity, token):
            await bridge.say(socket, "connection_ack", {"server_id": "two"}, identity)

        bridge.authenticate, bridge.refuse = authenticate, {}
        bridge.cut()
        await watch.back()
        assert bridge.types.count("session_join") == 2


async def test_c01_a_ping_refused_as_unknown_is_done_without():
    """The link lives on without a heartbeat: no verdict of death follows from pings that nobody knows."""
    refuse = dict.fromkeys(["session_join", "heartbeat_ping"], "PROTO_INVALID_MESSAGE")
    policy = quick(heartbeat=rb.bridge.Heartbeat(every=0.05, timeout=0.05))
    async with (
        Mini(refuse).running() as bridge,
        Watch(bridge.url, token="t", policy=policy) as watch,
    ):
        await watch.client.wait_ready(5)
        await asyncio.sleep(
            0.7
        )  # more than a heartbeat that is due, unanswered and looked at once more
        assert (watch.client.state, len(bridge.connections)) == ("READY", 1)
        assert bridge.types.count("heartbeat_ping") == 1


@pytest.mark.parametrize("kind", ["session_join", "request_replay"])
@pytest.mark.parametrize("code", ["SYS_RATE_LIMITED", "SYS_UNAVAILABLE"])
async def test_c01_any_other_refusal_is_a_failed_join(kind, code):
    """Busy is not unknown: it backs off, says why meanwhile, and joins when the server takes it."""
    async with Mini().running() as bridge, Watch(bridge.url, token="t") as watch:
        await watch.client.wait_ready(5)
        await bridge.push(1)
        await watch.until(lambda: watch.read == [1])
        bridge.refuse = {kind: {"code": code, "message": "later"}}
        bridge.cut()
        await watch.until(lambda: len(bridge.connections) > 3)
        assert watch.client.health().failure.code == code
        bridge.refuse = {}
        await bridge.push(2, live=False)
        await watch.client.wait_ready(5)
        await watch.until(lambda: watch.read == [1, 2])
        assert watch.of(FeatureRefused) == []


async def test_c01_a_replay_that_is_always_refused_is_no_loop():
    """An error that waiting cannot mend: after two such joins the next does without the replay, and says so."""
    async with Mini().running() as bridge, Watch(bridge.url, token="t") as watch:
        await watch.client.wait_ready(5)
        await bridge.push(1)
        await watch.until(lambda: watch.read == [1])
        bridge.refuse = {"request_replay": {"code": "SYS_INTERNAL_ERROR", "message": "broken"}}
        bridge.cut()
        await watch.back()
        await watch.until(lambda: watch.read == [1, "UNKNOWN no_replay"])
        assert len(bridge.connections) == 4


# -- credentials --------------------------------------------------------------------------------------------------------
REFUSALS = {
    "the code of today": ("connection_error", {"code": "AUTH_FAILED", "message": "Invalid or expired token"}),
    "of earlier": ("connection_error", {"code": "INVALID_TOKEN", "message": "no"}),
    "never authenticated": ("error", {"code": "NOT_AUTHENTICATED", "message": "no"}),
    "a code of its own": ("connection_error", {"code": "BAD_LOGIN", "message": "no"}),
    "no code": ("connection_error", {"message": "no"}),
    "another type": ("auth_error", {"error": "invalid token"}),
    "nothing at all": ("connection_error", {}),
    "tls only": ("connection_error", {"code": "INSECURE_TRANSPORT", "message": "TLS required"}),
}  # fmt: skip


class Refusing(Mini):
    """Refuses every login, in one form, and leaves the socket open."""

    def __init__(self, kind, payload):
        super().__init__()
        self.kind, self.payload = kind, payload

    async def authenticate(self, socket, identity, token):
        del token
        await self.say(socket, self.kind, self.payload, f"e-{identity}")


@each_row("refreshes", [False, True], ids=["value", "callable"])
@each_row("form", REFUSALS)
async def test_c02_refused_credentials_end_as_auth_error(form, refreshes):
    """FAILED with AuthError: at once for a value, after asking a callable once more."""
    asked = []

    def token():
        asked.append(1)
        return f"t{len(asked)}"

    async with Refusing(*REFUSALS[form]).running() as bridge:
        async with Watch(bridge.url, token=token if refreshes else "t1") as watch:
            with pytest.raises(rb.errors.AuthError):
                await watch.client.wait_ready(5)
            assert watch.client.state == "FAILED"
            assert watch.client.health().failure.category == "AUTH"
        assert bridge.tokens == (["t1", "t2"] if refreshes else ["t1"])


async def test_c02_flat_fields_and_the_servers_advice_are_read():
    """An error without a payload, and what the server says can be done about it."""
    flat = {"code": "INSECURE_TRANSPORT", "message": "TLS required", "remediation": "connect with wss://",
            "documentation_url": "https://docs.example/tls"}  # fmt: skip

    async with Mini().running() as bridge:

        async def authenticate(socket, identity, token):
            del identity, token
            await socket.send(json.dumps({"type": "connection_error", **flat}))

        bridge.authenticate = authenticate
        async with Watch(bridge.url, token="t") as watch:
            with pytest.raises(rb.errors.AuthError, match="TLS required") as caught:
                await watch.client.wait_ready(5)
    assert caught.value.failure.suggestions == (
        "connect with wss://",
        "see https://docs.example/tls",
    )


async def test_c02_a_login_that_is_refused_for_now_is_tried_again():
    """Busy is no refusal of credentials."""
    busy = {"code": "SERVER_BUSY", "message": "later", "recoverable": True}
    async with (
        Refusing("connection_error", busy).running() as bridge,
        Watch(bridge.url, token="t") as watch,
    ):
        await watch.until(lambda: len(bridge.connections) > 3)
        bridge.kind, bridge.payload = "connection_ack", {"server_id": "one"}
        await watch.client.wait_ready(5)


@pytest.mark.parametrize("refreshes", [False, True], ids=["value", "callable"])
async def test_c02_a_close_1008_while_authenticating_is_a_refusal(refreshes):
    """As earlier versions of ReCursor's bridge do it; C12: the words of the close come first."""
    async with Mini().running() as bridge:

        async def authenticate(socket, identity, token):
            del identity, token
            await socket.close(1008, "unknown message type")

        bridge.authenticate = authenticate
        async with Watch(bridge.url, token=(lambda: "t") if refreshes else "t") as watch:
            with pytest.raises(rb.errors.AuthError, match=r"^unknown message type") as caught:
                await watch.client.wait_ready(5)
        assert len(bridge.connections) == 1 + refreshes
    assert any("token" in text for text in caught.value.failure.suggestions)
    assert any("Dialect" in text for text in caught.value.failure.suggestions)


# -- why it is not ready ------------------------------------------------------------------------------------------------
async def test_c10_health_and_wait_ready_say_why_the_link_is_down():
    """While in BACKOFF `health().failure` is the last loss, and so is the cause of `wait_ready`'s error."""
    refuse = {"session_join": {"code": "SYS_RATE_LIMITED", "message": "too many sessions"}}
    async with Mini(refuse).running() as bridge, Watch(bridge.url, token="t") as watch:
        with pytest.raises(rb.errors.AttemptTimeoutError, match="too many sessions") as caught:
            await watch.client.wait_ready(0.5)
        assert caught.value.__cause__.failure.code == "SYS_RATE_LIMITED"
        assert watch.client.health().failure.message == "too many sessions"
        bridge.refuse = {}
        await watch.client.wait_ready(5)
        assert watch.client.health().failure is None


@pytest.mark.parametrize(
    ("switched_off", "missing", "field"),
    [({}, "connection_ack", "auth_ack=None"), ({"auth": None}, "connection_ack", "auth_ack=None"),
     ({"auth": None, "auth_ack": None}, "session_joined", "join=None"),
     ({"auth": None, "auth_ack": None, "join": None}, "heartbeat_pong", "ping=None")],
)  # fmt: skip
async def test_c03_a_server_that_says_nothing_is_named_with_the_answer_that_is_missing(
    switched_off, missing, field
):
    """Which answer is missing, and which field of Dialect switches it off: in the error, and in `health()`."""
    frames = []
    policy = quick(dialect=rb.bridge.Dialect(**switched_off))
    async with only_reads(frames) as url, Watch(url, policy=policy) as watch:
        with pytest.raises(rb.errors.AttemptTimeoutError, match=f"`{missing}`") as caught:
            await watch.client.wait_ready(1.5)
        assert any(field in text for text in caught.value.failure.suggestions)
        assert missing in watch.client.health().failure.message


# -- a session that the server has closed -------------------------------------------------------------------------------
@pytest.mark.parametrize("code", ["SESS_CLOSED", "SESS_NOT_FOUND"])
@pytest.mark.parametrize("error_ids", ["same", "fresh"])
async def test_c08_a_session_that_is_closed_is_abandoned(code, error_ids):
    """A send that is refused so says it, and the next goes through: in a new session, whose start is told as a gap."""
    bridge = Mini(ack=True, error_ids=error_ids, says_type=False)
    async with bridge.running(), Watch(bridge.url, token="t") as watch:
        await watch.client.wait_ready(5)
        old = watch.client.session_id
        bridge.refuse = {"note": {"code": code, "message": "Session is over"}}
        receipt = await watch.client.send("note", {"i": 1})
        await watch.until(lambda: watch.client.session_id != old)
        bridge.refuse = {}
        await watch.client.wait_ready(10)
        assert await (await watch.client.send("note", {"i": 2})).confirmed(5) == "applied"
        assert watch.read == ["GAP new_session"]
        if error_ids == "same":
            with pytest.raises(rb.errors.SessionError):
                await receipt.confirmed(1)
        else:
            assert receipt.state in {"unknown", "dead"}


async def test_c08_a_session_of_the_users_is_not_ours():
    """An error that names another session, or a bridge without sessions: the link is kept."""
    async with Mini(error_ids="same").running() as bridge, Watch(bridge.url, token="t") as watch:
        await watch.client.wait_ready(5)
        bridge.refuse = {
            "look": {"code": "SESS_NOT_FOUND", "message": "none", "session_id": "another"}
        }
        with pytest.raises(rb.errors.SessionError):
            await watch.client.request("look", {}, timeout=5)
        assert (watch.client.state, len(bridge.connections)) == ("READY", 1)


# -- a message that the server refuses ------------------------------------------------------------------------------------
ANSWERS = {
    "SYS_RATE_LIMITED": rb.BridgeError,
    "PROTO_SEQUENCE_ERROR": rb.errors.ProtocolError,
    "AUTH_TOKEN_EXPIRED": rb.errors.AuthError,
    "TOOL_EXECUTION_FAILED": rb.BridgeError,
    "SESS_CLOSED": rb.errors.SessionError,
    "NO_SUCH_CODE": rb.BridgeError,
}


@pytest.mark.parametrize("code", ANSWERS)
async def test_c09_a_receipt_raises_what_a_request_would(code):
    """Class, code, violations, advice, retryable: the server's own, in both."""
    fields = {
        "code": code,
        "message": "no",
        "violations": [{"field": "x"}],
        "suggestions": ["say y"],
        "retry_after": 3,
    }
    bridge = Mini({"tool_result": fields, "look": fields}, error_ids="same")
    async with bridge.running(), Watch(bridge.url, token="t") as watch:
        await watch.client.wait_ready(5)
        with pytest.raises(ANSWERS[code]) as asked:
            await watch.client.request("look", {}, timeout=5)
        receipt = await watch.client.send("tool_result", {})
        with pytest.raises(ANSWERS[code]) as sent:
            await receipt.confirmed(5)
    one, other = sent.value.failure, asked.value.failure
    assert type(sent.value) is type(asked.value)
    assert (one.code, one.retryable, one.severity, one.retry_after, one.suggestions) == (
        other.code, other.retryable, other.severity, other.retry_after, other.suggestions
    )  # fmt: skip
    assert one.details["violations"] == other.details["violations"] == ({"field": "x"},)
    assert receipt.failure.code == one.code
    assert one.severity != "critical"


async def test_c09_a_refusal_for_now_is_obeyed_and_opens_no_circuit():
    """A policy around send and confirmed repeats what the server calls passing; its breaker counts no defect of the peer."""
    bridge = Mini(
        {"note": {"code": "SYS_RATE_LIMITED", "message": "slow down"}}, error_ids="same", ack=True
    )
    policy = rb.Policy(
        rb.Retry(attempts=3, backoff=rb.Backoff.constant(0)), rb.Breaker(), name="c09"
    )

    @policy(idempotent=True)
    async def deliver(client):
        if bridge.types.count("note") == 2:
            bridge.refuse = {}
        receipt = await client.send("note", {"i": 1})
        return await receipt.confirmed(5)

    async with bridge.running(), Watch(bridge.url, token="t") as watch:
        await watch.client.wait_ready(5)
        assert await deliver(watch.client) == "applied"
        assert bridge.types.count("note") == 3
