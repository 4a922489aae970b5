"""ReCursor's numbers for calls and tools, as its specification prints them, driven through the preset's own policies."""

from __future__ import annotations

import pytest

import resilient_bridge as rb
from resilient_bridge.presets import recursor
from resilient_bridge.testing import inject, record, virtual_time
from tests.internals.telemetry import name_in_words

from .driving import drive, limits


# name of the tool, TOOL_TIMEOUTS in milliseconds as printed
TOOL_TIMEOUTS = [("bash", 300000), ("read_file", 10000), ("edit_file", 30000), ("search", 60000)]

# the table "Retryable vs Non-Retryable": what happens, calls in all, the longest waits
RETRYABLE = [
    ("Network timeout: yes, exponential backoff", TimeoutError, 4, [1, 2, 4]),
    ("File not found: no, fail immediately", FileNotFoundError, 1, []),
    ("Permission denied: no, fail immediately", PermissionError, 1, []),
    ("Rate limited: yes, backoff with jitter", 429, 4, [1, 2, 4]),
    ("Out of memory: maybe, retry once, then fail", MemoryError, 2, [1]),
]


@pytest.mark.requirement("R12")
@pytest.mark.parametrize(("tool", "milliseconds"), TOOL_TIMEOUTS)
def test_a_tool_ends_at_its_timeout(tool, milliseconds):
    """TOOL_TIMEOUTS: a call that hangs fails then, and not before."""
    assert recursor.tools[tool] == rb.Policy(rb.Timeout(milliseconds / 1000, thread=True))
    assert limits(recursor.tools[tool], [milliseconds / 1000])


@pytest.mark.requirement("R11")
@pytest.mark.parametrize(
    ("row", "error", "calls", "waits"),
    RETRYABLE,
    ids=[row.partition(":")[0] for row, *_ in RETRYABLE],
)
def test_the_table_of_retryable_causes(row, error, calls, waits):
    """Each cause is repeated as often as its row says (`max_retries` 3), and waits as it says."""
    driven = drive(recursor.calls, *[error] * 4)
    assert driven.calls == calls
    if "jitter" in row:
        assert len(driven.slept) == len(waits)
        assert all(0 <= wait <= most for wait, most in zip(driven.slept, waits, strict=True))
        assert driven.slept != waits
        assert driven.slept != drive(recursor.calls, *[error] * 4, seed=1).slept
    else:
        assert driven.slept == waits


@pytest.mark.requirement("R15")
def test_the_circuit_opens_after_five_failures_for_sixty_seconds():
    """threshold 5, timeoutMs 60000: four failures and a success leave it closed, five in a row do not."""

    @recursor.calls(idempotent=False)
    def ask() -> None:
        """Go as the script says."""

    threshold, timeoutMs = 5, 60000  # noqa: N806 -- as it is printed
    reset = ConnectionResetError
    with (
        virtual_time() as time,
        inject(ask, reset, reset, reset, reset, rb.testing.PASS, *[reset] * 5) as script,
    ):
        for _ in range(2 * threshold - 1):
            rb.capture(ask)
        assert rb.calls.circuit(ask).state == "closed"
        rb.capture(ask)
        assert (rb.calls.circuit(ask).state, rb.calls.circuit(ask).retry_after) == (
            "open",
            timeoutMs / 1000,
        )
        time.advance(59.9)
        assert rb.capture(ask).failure.code == "SYS_CIRCUIT_OPEN"
    assert script.calls == 10


@pytest.mark.requirement("R15")
@pytest.mark.parametrize(
    ("probe", "state"), [(rb.testing.PASS, "closed"), (ConnectionResetError, "open")]
)
def test_after_sixty_seconds_one_call_decides(probe, state):
    """Half-open: a success closes it, a failure opens it for another 60 s."""

    @recursor.calls(idempotent=False)
    def ask() -> None:
        """Go as the script says."""

    with virtual_time() as time, inject(ask, *[ConnectionResetError] * 5, probe), record() as seen:
        for _ in range(5):
            rb.capture(ask)
        time.advance(60)
        rb.capture(ask)
        assert rb.calls.circuit(ask).state == state
        assert rb.calls.circuit(ask).retry_after == (60 if state == "open" else None)
    assert [event.reason for event in seen if name_in_words(event) == "circuit half opened"] == [
        "reset_timeout_elapsed"
    ]
