"""The table of codes: complete, consistent, and the only place where a code's meaning is written."""

from __future__ import annotations

import pytest

from resilient_bridge.failure import (
    CODES,
    MCP_CODES,
    PREFIXES,
    Category,
    Executed,
    Kind,
    Severity,
    code_info,
)
from tests.rows import each_row


SEED = """CONN_WEBSOCKET_CLOSED CONN_TLS_HANDSHAKE_FAILED CONN_TIMEOUT AUTH_TOKEN_EXPIRED PROTO_INVALID_MESSAGE
    PROTO_SEQUENCE_ERROR SESS_NOT_FOUND SESS_CLOSED SESS_NOT_RESUMABLE TOOL_EXECUTION_FAILED TOOL_TIMEOUT
    HOOK_VALIDATION_FAILED SYS_INTERNAL_ERROR"""
ALWAYS = {Category.TIMEOUT}
NEVER = {Category.CONFIG, Category.AUTH, Category.PROTOCOL, Category.INTERNAL}
FINAL_LOSSES = {
    "CONN_TLS_HANDSHAKE_FAILED",
    "CONN_RECONNECT_EXHAUSTED",
    "SYS_INBOX_FULL",
    "SYS_OUTCOME_UNKNOWN",
    "SYS_DEADLINE_EXCEEDED",  # the time for all attempts is up
}


@pytest.mark.requirement("R1")
def test_every_code_has_one_of_the_seven_prefixes():
    """The specification's seven prefixes are all used, and there is no other."""
    assert set(PREFIXES) == {"CONN_", "AUTH_", "PROTO_", "SESS_", "TOOL_", "HOOK_", "SYS_"}
    assert {code.partition("_")[0] + "_" for code in CODES} == set(PREFIXES)


@pytest.mark.requirement("R1")
@each_row("code", SEED.split())
def test_the_codes_of_the_seed_are_there(code):
    """Each code of the specification is in the table under the same name."""
    assert code in CODES


@pytest.mark.requirement("S1")
@each_row("code", CODES)
def test_categories_have_their_default_retryability(code):
    """CONFIG AUTH PROTOCOL INTERNAL: no; TIMEOUT and TRANSPORT: yes but for the listed final losses; UPSTREAM varies."""
    row = CODES[code]
    if row.category in NEVER:
        assert not row.retryable
    if row.category in ALWAYS:
        assert row.retryable is (code not in FINAL_LOSSES)
    if row.category is Category.TRANSPORT:
        assert row.retryable is (code not in FINAL_LOSSES)


@each_row("code", CODES)
def test_kind_agrees_with_retryable(code):
    """A code is transient exactly when it is retryable."""
    assert (CODES[code].kind is Kind.TRANSIENT) is CODES[code].retryable


@each_row("code", CODES)
def test_every_code_says_what_and_what_to_do(code):
    """Each has a summary and a hint, in lower case, without a full stop."""
    for text in (CODES[code].summary, CODES[code].hint):
        assert text
        assert text == text.lower()
        assert not text.endswith(".")


def test_the_categories_map_to_the_json_rpc_codes_of_the_seed():
    """CONFIG -32004, AUTH -32003, UPSTREAM -32002, TIMEOUT -32001, TRANSPORT and PROTOCOL -32000, INTERNAL -32603."""
    wanted = {"CONFIG": -32004, "AUTH": -32003, "UPSTREAM": -32002, "TIMEOUT": -32001}
    wanted |= {"TRANSPORT": -32000, "PROTOCOL": -32000, "INTERNAL": -32603}
    assert {category.value: code for category, code in MCP_CODES.items()} == wanted


def test_only_what_cannot_have_arrived_counts_as_not_executed():
    """A cut or silent link may have delivered the message; a refused, unresolved or never opened one has not."""
    assert CODES["CONN_RESET"].executed is Executed.MAYBE
    assert CODES["CONN_WEBSOCKET_CLOSED"].executed is Executed.MAYBE
    assert CODES["SYS_OUTCOME_UNKNOWN"].executed is Executed.MAYBE
    assert CODES["CONN_REFUSED"].executed is Executed.NO
    assert CODES["SYS_NOT_DELIVERED"].executed is Executed.NO


def test_a_lost_session_is_not_valid():
    """All SESS_ codes, and only they, end the session."""
    assert {code for code, row in CODES.items() if not row.session_valid} == {
        code for code in CODES if code.startswith("SESS_")
    }


def test_an_unlisted_code_is_read_like_its_prefix():
    """A peer's unlisted code keeps its name and has the values of its prefix; without a prefix it is refused."""
    row = code_info("AUTH_CLOCK_SKEW")
    assert (row.category, row.retryable, row.summary) == (Category.AUTH, False, "clock skew")
    with pytest.raises(ValueError, match="wanted one that starts with CONN_"):
        code_info("OOPS")


def test_superseding_ends_the_session():
    """Severity fatal means the end of the session: only for one that another client took over."""
    assert [code for code, row in CODES.items() if row.severity is Severity.FATAL] == [
        "SESS_SUPERSEDED"
    ]


def test_a_rejection_by_a_policy_was_never_sent():
    """A rejection by a circuit, a bulkhead or a rate limit is TRANSPORT, transient and not run; a rejected result has run."""
    for code in ("SYS_CIRCUIT_OPEN", "SYS_BULKHEAD_FULL", "SYS_THROTTLED"):
        row = CODES[code]
        assert (row.category, row.kind, row.executed) == (
            Category.TRANSPORT,
            Kind.TRANSIENT,
            Executed.NO,
        )
    late, rejected = CODES["SYS_DEADLINE_EXCEEDED"], CODES["SYS_RESULT_REJECTED"]
    assert (late.category, late.retryable, late.executed) == (
        Category.TIMEOUT,
        False,
        Executed.MAYBE,
    )
    assert (rejected.category, rejected.retryable, rejected.executed) == (
        Category.UPSTREAM,
        True,
        Executed.YES,
    )


def test_one_refused_call_is_not_critical():
    """A critical failure opens a circuit, but a 403 says nothing about the next call."""
    assert CODES["AUTH_FORBIDDEN"].severity is Severity.ERROR
