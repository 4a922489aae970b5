"""The keys, words and variables that the specifications print, as they print them."""

from __future__ import annotations

import asyncio

import pytest

import resilient_bridge as rb
from resilient_bridge.testing import inject, virtual_time


RETRY = """\
# Default retry configuration
retry:
  max_attempts: 3
  base_delay_ms: 1000
  max_delay_ms: 30000
  backoff: exponential  # linear | exponential | jittered
  retryable_errors:
    - rate_limit
    - timeout
    - server_error    # 5xx
    - connection_error
"""
AGENT = """\
model: anthropic/claude-3-5-sonnet
fallback_model: openai/gpt-4o-mini  # Used on repeated failures
name: researcher
skills: [search]
temperature: 0.7
max_tokens: 4096
"""
TOOLS = """\
tools:
  default_timeout_ms: 30000
  per_tool:
    shell_command: 120000  # 2 minutes for shell
    web_scrape: 60000      # 1 minute for web
    browser_action: 45000  # 45s for browser
"""
BUDGET = """\
budget:
  mode: soft  # soft | hard
  limit_usd: 10.00
  warning_threshold: 0.8  # Warn at 80%
"""
DEGRADATION = """\
degradation:
  disable_browser_on_error: true   # Fall back to web_scrape
  disable_screenshots_on_error: true
  reduce_parallelism_on_rate_limit: true
"""


@pytest.fixture
def load(tmp_path):
    def load(text: str, **options: object) -> rb.settings.Config:
        path = tmp_path / "viber.yaml"
        path.write_text(text)
        return rb.load(path, **options)

    return load


@pytest.mark.requirement("V1")
@pytest.mark.parametrize(
    ("error", "calls"),
    [
        (429, 3),
        (TimeoutError(), 3),
        (500, 3),
        (503, 3),
        (ConnectionResetError(), 3),
        (400, 1),
        (401, 1),
        (ValueError(), 1),
    ],
)
def test_the_printed_block_makes_three_calls_after_one_and_two_seconds(load, error, calls):
    """Each listed error is repeated, and no other."""
    policy = load(RETRY).bridge.calls

    @policy(idempotent=True)
    def ask() -> None: ...

    with virtual_time() as time, inject(ask, *[error] * 5) as script:
        rb.capture(ask)
    assert script.calls == calls
    assert time.slept == [1, 2][: calls - 1]


@pytest.mark.requirement("V1")
@pytest.mark.parametrize(
    ("word", "backoff"),
    [
        ("linear", rb.Backoff.linear(0.5, cap=4, jitter="none")),
        ("exponential", rb.Backoff.exponential(0.5, cap=4, jitter="none")),
        ("jittered", rb.Backoff.exponential(0.5, cap=4, jitter="full")),
    ],
)
def test_each_printed_word_is_its_schedule(load, word, backoff):
    """With base and cap in milliseconds; what is left out is 1000 and 30000."""
    text = (
        RETRY.replace("exponential  #", f"{word}  #")
        .replace("1000", "500")
        .replace("30000", "4000")
    )
    assert load(text).bridge.calls.layers[0].backoff == backoff
    short = load(f"retry:\n  backoff: {word}\n").bridge.calls.layers[0].backoff
    assert (short.seconds, short.cap) == ((1,), 30)


@pytest.mark.requirement("V1")
def test_mistakes_in_the_printed_keys_name_these_keys(load):
    """Not by the names of the fields that they mean."""
    text = (
        RETRY.replace("3\n", "0\n", 1).replace("1000", "soon").replace("rate_limit", "rate_limits")
    )
    with pytest.raises(rb.ConfigError) as caught:
        load(text.replace("backoff: exponential", "backoff: expnential"))
    assert [(problem.path, problem.line) for problem in caught.value.problems] == [
        ("retry.max_attempts", 3),
        ("retry.backoff", 6),
        ("retry.retryable_errors[0]", 8),
    ]
    with pytest.raises(rb.ConfigError) as caught:
        load(text.replace("30000", "-1"))
    assert [p.path for p in caught.value.problems if "delay" in p.path] == [
        "retry.base_delay_ms",
        "retry.max_delay_ms",
    ]


@pytest.mark.requirement("V4")
def test_a03_a_fallback_model_that_no_policy_uses_is_a_warning(load):
    """`fallback_model: openai/gpt-4o-mini` names a model and calls none: a warning says what is missing, until a policy has it."""
    config = load(AGENT)
    (warning,) = config.warnings
    assert warning.startswith("fallback_model: no policy calls openai/gpt-4o-mini")
    assert "fallback" in warning.partition(":")[2]
    assert config.tables["agent"].fallback_model == "openai/gpt-4o-mini"
    assert load(AGENT.replace("fallback_model", "# fallback_model")).warnings == ()

    asked: list[str] = []

    def ask_mini(prompt: str) -> str:
        return f"mini: {prompt}"

    def agree(failure: rb.Failure) -> bool:
        asked.append(failure.code)
        return True

    names = {"ask_mini": ask_mini, "agree": agree}
    rung = "fallback: {ladder: [ask_mini], acknowledge: agree}\n"
    for text in (rung, "policies:\n  model:\n    " + rung):
        config = load(AGENT + RETRY + text, names=names)
        assert config.warnings == ()
        policy = config.policies.get("model", config.bridge.calls)

        @policy(idempotent=True)
        def ask(prompt: str) -> str:
            raise TimeoutError

        with virtual_time():
            assert ask("x") == "mini: x"
    assert asked == ["CONN_TIMEOUT"] * 2


@pytest.mark.requirement("V10")
def test_everything_that_is_printed_is_one_file(load):
    """Model, tools, budget and flags, beside the retries."""
    config = load(AGENT + RETRY + TOOLS + BUDGET + DEGRADATION)
    agent = config.tables["agent"]
    assert (agent.model, agent.fallback_model, agent.name) == (
        "anthropic/claude-3-5-sonnet",
        "openai/gpt-4o-mini",
        "researcher",
    )
    assert (agent.skills, agent.tools, agent.temperature, agent.max_tokens) == (
        ("search",),
        (),
        0.7,
        4096,
    )
    box = config.toolbox
    for name in ("shell_command", "web_scrape", "browser_action", "other"):
        box.tool(name=name)(lambda: None)
    assert [tool.timeout for tool in box.tools.values()] == [120, 60, 45, 30]
    assert "SpendBudget spend soft" in repr(config.tables["budget"].make())
    assert config.tables["budget"].make().status().limit == 10
    assert config.tables["degradation"].make()["browser"].mode == "browser"


@pytest.mark.requirement("V10")
def test_each_row_of_the_table_of_fields_is_checked(load):
    """Required, not empty, in the registry, in its range; nine mistakes are nine lines."""
    text = """\
model: gpt
name: ''
skills: [serch]
tools: [hammer]
temperature: 3
max_tokens: 0
verify_providers: maybe
budget: {mode: firm}
retry: {max_attempts: 0}
"""
    with pytest.raises(rb.ConfigError) as caught:
        load(text, known={"skills": ["search"], "tools": ["saw"]})
    assert [(problem.path, problem.line) for problem in caught.value.problems] == [
        ("model", 1), ("name", 2), ("skills[0]", 3), ("tools[0]", 4), ("temperature", 5), ("max_tokens", 6), ("verify_providers", 7),
        ("budget.mode", 8), ("retry.max_attempts", 9),
    ]  # fmt: skip
    assert "did you mean search?" in str(caught.value)
    with pytest.raises(
        rb.ConfigError, match="name: wanted a name that is not empty, it is missing"
    ):
        load("model: a/b\n")


@pytest.mark.requirement("V10")
def test_providers_are_asked_within_one_timeout_if_the_settings_say_so(load):
    """Not by default; all at once; each that fails is a problem with its path."""
    asked = []

    async def good() -> None:
        asked.append("good")

    async def refused() -> None:
        raise ConnectionRefusedError(111, "connection refused")

    async def silent() -> None:
        await asyncio.sleep(3600)

    checks = {"openai": good, "anthropic": refused, "local": silent}
    asyncio.run(load(AGENT).verify_providers(checks))
    assert asked == []
    config = load(AGENT + "verify_providers: true\n")
    with pytest.raises(rb.ConfigError) as caught:
        asyncio.run(config.verify_providers(checks, timeout=0.05))
    assert asked == ["good"]
    assert {problem.path: problem.message for problem in caught.value.problems} == {
        "providers.anthropic": "wanted an answer, got ConnectionRefusedError: [Errno 111] connection refused",
        "providers.local": "wanted an answer, got nothing within 0.05 s",
    }
    asyncio.run(config.verify_providers({"openai": good}))


@pytest.mark.requirement("V10")
def test_without_providers_there_is_nothing_to_ask(load):
    """A file that has no table of them is right."""
    asyncio.run(load(AGENT + "verify_providers: true\n").verify_providers())
    asyncio.run(load(AGENT + "verify_providers: true\n").verify_providers({}))


@pytest.mark.requirement("G10")
def test_settings_of_the_daemon_come_from_its_own_variables():
    """`GASOLINE_PORT=7891` and `DEBUG=gasoline:*`, where its preset is asked for and nowhere else."""
    variables = dict(word.split("=") for word in "GASOLINE_PORT=7891 DEBUG=gasoline:*".split())
    variables["DEBUG"] = f"other:*,{variables['DEBUG']}"
    daemon = rb.load({"preset": "gasoline"}, env=variables).tables["gasoline"]
    assert (daemon.port, daemon.debug, daemon.persist) == (7891, True, False)
    assert rb.load({"gasoline": {}}).tables["gasoline"].port == 7890
    assert "gasoline" not in rb.load({"preset": "recursor"}, env=variables).tables
    by_variable = rb.load(env={**variables, "RESILIENT_BRIDGE_PRESET": "gasoline"})
    assert by_variable.tables["gasoline"].port == 7891
    over_file = rb.load(
        {"preset": "gasoline", "gasoline": {"port": 1, "persist": True}}, env=variables
    )
    assert (over_file.tables["gasoline"].port, over_file.tables["gasoline"].persist) == (7891, True)
    with pytest.raises(rb.ConfigError, match=r"gasoline\.port: wanted a port from 1 to 65535"):
        rb.load({"preset": "gasoline"}, env={"GASOLINE_PORT": "99999"})


@pytest.mark.requirement("G10")
def test_its_options_of_a_circuit_breaker_are_read_as_printed():
    """maxFailures 3, resetTimeout 10000, initialBackoff 500, maxBackoff 10000."""
    options = {"maxFailures": 3, "resetTimeout": 10000, "initialBackoff": 500, "maxBackoff": 10000}
    config = rb.load({"preset": "gasoline", "breaker": options})
    retry, breaker, _ = config.bridge.calls.layers
    assert breaker == rb.Breaker.consecutive(3, open_for=10)
    assert retry.backoff.delays(7) == [0, 0.5, 1, 2, 4, 10, 10]
    assert config.bridge.reconnect.backoff == retry.backoff
    printed = {"maxFailures": 5, "resetTimeout": 30000, "initialBackoff": 1000, "maxBackoff": 30000}
    assert rb.load({"preset": "gasoline", "breaker": printed}).bridge == rb.presets.gasoline
    with pytest.raises(rb.ConfigError, match=r"breaker.maxBackoff: wanted milliseconds"):
        rb.load({"breaker": {"maxBackoff": "10s"}})
