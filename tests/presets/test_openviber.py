"""OpenViber's retries, waits per provider, fallback and tool timeouts, as in its specification."""

from __future__ import annotations

import pytest

import resilient_bridge as rb
from resilient_bridge.presets import openviber
from resilient_bridge.testing import inject, record, virtual_time

from .driving import answer, drive, limits


# retryable_errors as listed, and one of each
RETRYABLE = [
    ("rate_limit", 429),
    ("timeout", TimeoutError),
    ("server_error", 500),
    ("server_error", 502),
    ("server_error", 503),
    ("connection_error", ConnectionResetError),
]
PROVIDERS = """\
| OpenAI | 429 | Header or 60s | Wait, then retry |
| Anthropic | 429 | Header or 60s | Wait, then retry |
"""
# the "Non-Retryable Errors"
FINAL = [
    ("401 Unauthorized", 401),
    ("400 Bad Request", 400),
    ("context_length_exceeded", RuntimeError("context_length_exceeded")),
    ("content_policy_violation", RuntimeError("content_policy_violation")),
]
# name of the tool, milliseconds as printed
TOOL_TIMEOUTS = [
    ("default", 30000),
    ("shell_command", 120000),
    ("web_scrape", 60000),
    ("browser_action", 45000),
]


def _retry() -> rb.Retry:
    (retry,) = (layer for layer in openviber.calls.layers if isinstance(layer, rb.Retry))
    return retry


@pytest.mark.requirement("V1")
@pytest.mark.parametrize(("name", "error"), RETRYABLE)
def test_a_listed_error_is_tried_three_times(name, error):
    """max_attempts 3 counts calls; each error of the list is retried."""
    driven = drive(openviber.calls, *[error] * 5)
    assert (driven.calls, driven.stopped) == (3, "attempts")


@pytest.mark.requirement("V1")
def test_the_delays_are_exponential_from_one_to_thirty_seconds():
    """base_delay_ms 1000, max_delay_ms 30000."""
    assert drive(openviber.calls, *[503] * 3).slept == [1, 2]
    assert _retry().backoff.delays(7) == [1, 2, 4, 8, 16, 30, 30]


@pytest.mark.requirement("V1")
@pytest.mark.parametrize(
    ("name", "backoff", "longest"),
    [
        ("linear", rb.Backoff.linear(1, cap=30, jitter="none"), [1, 2, 3, 4]),
        ("exponential", rb.Backoff.exponential(1, cap=30, jitter="none"), [1, 2, 4, 8]),
        ("jittered", rb.Backoff.exponential(1, cap=30, jitter="full"), [1, 2, 4, 8]),
    ],
)
def test_every_backoff_of_the_configuration(name, backoff, longest):
    """backoff: linear | exponential | jittered, each with the same base and cap."""
    policy = openviber.calls.replace(rb.Retry(attempts=5, backoff=backoff))
    slept = drive(policy, *[503] * 5).slept
    assert backoff.delays(4) == longest
    assert all(0 <= wait <= most for wait, most in zip(slept, longest, strict=True))
    assert (slept == longest) == (name != "jittered")


@pytest.mark.requirement("V1")
def test_the_list_of_errors_is_an_option():
    """Only listed errors are retried."""
    policy = openviber.calls.replace(rb.Retry(attempts=3, on=[429, "CONN_TIMEOUT"]))
    assert drive(policy, 429).calls == 2
    assert drive(policy, 503).calls == 1


@pytest.mark.requirement("V2")
@pytest.mark.parametrize("line", PROVIDERS.splitlines())
@pytest.mark.parametrize("header", ["12", "90", None])
def test_a_rate_limit_waits_for_its_header_or_sixty_seconds(line, header):
    """OpenAI and Anthropic, 429: "Header or 60s"."""
    _, status, wait, _ = (cell.strip() for cell in line.strip("|").split("|"))
    default = int(wait.removeprefix("Header or ").removesuffix("s"))
    driven = drive(
        openviber.calls, int(status) if header is None else answer(int(status), retry_after=header)
    )
    assert (driven.slept, driven.calls) == ([default if header is None else int(header)], 2)


@pytest.mark.requirement("V2")
@pytest.mark.parametrize("error", [503, ConnectionResetError])
def test_a_local_provider_is_asked_again_at_once(error):
    """Local (Ollama): "Immediate retry"."""
    driven = drive(openviber.tools["local"], error, error)
    assert (sum(driven.slept), driven.calls) == (0, 3)


@pytest.mark.requirement("V3")
@pytest.mark.parametrize(("name", "error"), FINAL, ids=[row[0] for row in FINAL])
def test_what_a_repeat_cannot_help_fails_at_once(name, error):
    """One call, no wait."""
    driven = drive(openviber.calls, error)
    assert (driven.calls, driven.slept) == (1, [])
    assert not driven.outcome.failure.retryable


def _small(prompt: str) -> str:
    return f"small: {prompt}"


def _large(acknowledge) -> tuple[rb.calls.Outcome[str], list[rb.events.Event], int]:
    """Call a model that always fails, with another model as its fallback."""

    @rb.Policy(rb.Fallback(_small, acknowledge=acknowledge), openviber.calls)(idempotent=True)
    def large(prompt: str) -> str:
        return f"large: {prompt}"

    with virtual_time(), inject(large, *[503] * 9) as script, record() as seen:
        outcome = rb.capture(large, "x")
    return outcome, seen, script.calls


@pytest.mark.requirement("V4")
def test_the_other_model_is_used_after_repeated_failure_when_somebody_agrees():
    """The failure is reported first, the switch confirmed, then made; each step is an event."""
    asked: list[rb.Failure] = []

    def agree(failure: rb.Failure) -> bool:
        asked.append(failure)
        return True

    outcome, seen, _ = _large(agree)
    assert outcome.value == "small: x"
    assert [failure.code for failure in asked] == ["SYS_UNAVAILABLE"]
    assert [type(event).__name__ for event in seen][-2:] == ["GaveUp", "FellBack"]
    assert seen[-1].failure.code == "SYS_UNAVAILABLE"


@pytest.mark.requirement("V4")
def test_without_a_yes_the_failure_stands():
    """Without a confirmation the other model is not called, and the caller gets the error."""
    outcome, seen, _ = _large(lambda failure: False)
    assert outcome.failure.code == "SYS_UNAVAILABLE"
    assert "FellBack" not in [type(event).__name__ for event in seen]


@pytest.mark.requirement("V4")
def test_one_failure_is_not_enough():
    """While a retry succeeds, no confirmation is asked for."""
    asked = []

    @rb.Policy(rb.Fallback(_small, acknowledge=asked.append), openviber.calls)(idempotent=True)
    def large(prompt: str) -> str:
        return f"large: {prompt}"

    with virtual_time(), inject(large, 429, 429):
        assert large("x") == "large: x"
    assert asked == []


@pytest.mark.requirement("V5")
@pytest.mark.parametrize(("tool", "milliseconds"), TOOL_TIMEOUTS)
def test_a_tool_ends_at_its_timeout(tool, milliseconds):
    """default_timeout_ms and per_tool: a call that hangs fails exactly then."""
    assert openviber.tools[tool] == rb.Policy(rb.Timeout(milliseconds / 1000, thread=True))
    assert limits(openviber.tools[tool], [milliseconds / 1000])


@pytest.mark.requirement("V1")
def test_e18_three_calls_each_however_many_fail_at_once():
    """Twenty calls that fail twice all succeed: no shared budget reduces the three attempts."""
    failed: dict[int, int] = {}

    @openviber.calls(idempotent=True)
    def ask(number: int) -> int:
        failed[number] = failed.get(number, 0) + 1
        if failed[number] < 3:
            raise ConnectionResetError
        return number

    with virtual_time():
        assert [ask(number) for number in range(20)] == list(range(20))
    for preset in (openviber, rb.presets.ccsetup, rb.presets.gasoline, rb.presets.recursor):
        policies = (preset.calls, *preset.tools.values())
        retries = [layer for one in policies for layer in one.layers if isinstance(layer, rb.Retry)]
        assert retries == [retry.evolve(budget=None) for retry in retries]
