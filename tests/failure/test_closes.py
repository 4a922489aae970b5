"""Close codes, received and sent: one row each, and the record a websockets exception becomes."""

from __future__ import annotations

import warnings

import pytest
from websockets.exceptions import ConnectionClosed, ConnectionClosedError, ConnectionClosedOK
from websockets.frames import Close

from resilient_bridge.failure import classify, classify_close
from tests.rows import each_row


RECEIVED = {
    "CONN_WEBSOCKET_CLOSED TRANSPORT no": (1000,),
    "CONN_WEBSOCKET_CLOSED TRANSPORT yes": (1001, 1004, 1005, 1006, 1012, 1014, 1015, 1016, 2999),
    "CONN_WEBSOCKET_CLOSED UPSTREAM yes": (
        1011,
        1013,
        3001,
        3999,
        4000,
        4002,
        4005,
        4399,
        4500,
        4503,
        4600,
        4999,
    ),
    "CONN_WEBSOCKET_CLOSED UPSTREAM no": (4400, 4422, 4501),
    "CONN_WEBSOCKET_CLOSED TIMEOUT yes": (3008, 4408),
    "PROTO_VIOLATION PROTOCOL no": (1002, 1003, 1007, 1010),
    "PROTO_MESSAGE_TOO_BIG PROTOCOL no": (1009,),
    "AUTH_INVALID_TOKEN AUTH no": (1008, 3000, 4001, 4401),
    "AUTH_FORBIDDEN AUTH no": (3003, 4003, 4403),
    "SESS_NOT_FOUND UPSTREAM no": (4004, 4404),
    "SESS_SUPERSEDED UPSTREAM no": (4409,),
    "SYS_RATE_LIMITED UPSTREAM yes": (4429,),
}
SENT = {
    "PROTO_INVALID_FRAME PROTOCOL no": (1002, 1003, 1007),
    "PROTO_MESSAGE_TOO_BIG PROTOCOL no": (1009,),
    "CONN_HEARTBEAT_TIMEOUT TIMEOUT yes": (1011,),
    "CONN_WEBSOCKET_CLOSED TRANSPORT yes": (1001, 1012),
}


def _row(failure) -> str:
    return f"{failure.code} {failure.category} {'yes' if failure.retryable else 'no'}"


@pytest.mark.requirement("R1")
@each_row(("code", "row"), [(code, row) for row, codes in RECEIVED.items() for code in codes])
def test_every_code_that_is_received(code, row):
    """The whole range: listed, registered, by analogy with HTTP, and anybody's own."""
    failure = classify_close(code, "why", "peer")
    assert _row(failure) == row
    assert dict(failure.details) == {"close_code": code, "close_text": "why", "close_by": "peer"}
    assert "why" in failure.message


@pytest.mark.parametrize(
    ("code", "row"), [(code, row) for row, codes in SENT.items() for code in codes]
)
def test_every_code_that_is_sent(code, row):
    """What we close for: garbage, size, silence."""
    assert _row(classify_close(code, "", "us")) == row


def test_a_loss_without_a_close_frame():
    """Nobody said anything: it may have been executed, and reconnecting helps."""
    failure = classify_close(None, "", None)
    assert _row(failure) == "CONN_WEBSOCKET_CLOSED TRANSPORT yes"
    assert failure.executed == "maybe"
    assert failure.details["close_by"] is None
    assert str(failure) == "connection lost (TRANSPORT)"


@each_row(
    ("frames", "code", "by"),
    [
        ((Close(1012, "restart"), None, None), 1012, "peer"),
        ((Close(1012, "restart"), Close(1012, "restart"), True), 1012, "peer"),
        ((Close(1000, ""), Close(1009, "too big"), False), 1009, "us"),
        ((None, Close(1009, "too big"), None), 1009, "us"),
        ((None, None, None), None, None),
    ],
)
@each_row("cls", [ConnectionClosed, ConnectionClosedError, ConnectionClosedOK])
def test_the_first_close_frame_counts(cls, frames, code, by):
    """The one who closed first said why; the deprecated `.code`, which warns, is never read."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        failure = classify(cls(*frames))
    assert failure.details.get("close_code") == code
    assert failure.details["close_by"] == by


def test_going_away_is_a_loss_although_the_library_calls_it_ok():
    """1001 comes as ConnectionClosedOK, and is repeated; only 1000 means that the peer has finished."""
    assert classify(ConnectionClosedOK(Close(1001, ""), None, None)).retryable
    assert not classify(ConnectionClosedOK(Close(1000, ""), None, None)).retryable


def test_the_death_of_the_keepalive_is_ours():
    """`sent 1011 keepalive ping timeout` and no answer is silence of the peer, not an error of the server."""
    silence = ConnectionClosedError(None, Close(1011, "keepalive ping timeout"), None)
    assert _row(classify(silence)) == "CONN_HEARTBEAT_TIMEOUT TIMEOUT yes"
    ours = ConnectionClosedError(None, Close(1011, "internal error"), None)
    assert _row(classify(ours)) == "CONN_WEBSOCKET_CLOSED TRANSPORT yes"
    theirs = ConnectionClosedError(Close(1011, "keepalive ping timeout"), None, None)
    assert _row(classify(theirs)) == "CONN_WEBSOCKET_CLOSED UPSTREAM yes"


def test_the_text_of_a_close_cannot_forge_a_line():
    """It comes from the other side: escaped, redacted, short (threats 40 and 46)."""
    failure = classify_close(4001, "token=CANARY\n\x1b[2J" + "x" * 100_000, "peer")
    for shown in (
        str(failure),
        repr(failure),
        failure.explain(),
        failure.to_llm(),
        str(failure.to_dict()),
    ):
        assert "CANARY" not in shown
        assert "\x1b" not in shown
        assert len(shown) < 3_000


# ---- in the words of the library -------------------------------------------------------------------------------------


def _printed():
    codes = sorted({code for codes in (*RECEIVED.values(), *SENT.values()) for code in codes})
    for code in codes:
        for frame in (Close(code, ""), Close(code, "keepalive ping timeout")):
            yield ConnectionClosedError(frame, None)
            yield ConnectionClosedError(frame, Close(1000, ""), rcvd_then_sent=True)
            yield ConnectionClosedError(None, frame)
            yield ConnectionClosedError(Close(1000, ""), frame, rcvd_then_sent=False)
    yield ConnectionClosedError(None, None)


def test_a_printed_close_means_what_the_close_means():
    """A line of a log, with or without the class before it: the code and the advice of the exception; as a text, the other side's."""
    for error in _printed():
        expected = classify(error)
        for text in (
            str(error),
            f"websockets.exceptions.ConnectionClosedError: {error}",
            f"lost: {error}",
        ):
            found = classify(text)
            assert (found.code, found.retryable) == (expected.code, expected.retryable), text
            assert (found.category, found.executed) == ("UPSTREAM", "maybe"), text
            assert found.details.items() <= expected.details.items(), text
            assert found.details["close_by"] == expected.details["close_by"], text


@pytest.mark.parametrize(
    "text",
    [
        "received 1012 (service restart)",
        "sent 1011 (unexpected error) x",
        "received 9012 (x); no close frame sent",
        "received 1012; then sent 1012 (service restart)",
        "the close frame received was fine; then sent 2 letters",
    ],
)
def test_what_only_looks_like_a_printed_close_is_none(text):
    """Numbers and words as they may stand in any text."""
    assert classify(text).code == "SYS_INTERNAL_ERROR"
