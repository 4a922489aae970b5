"""What a document becomes: presets as a base, layers, precedence, the client's arguments, a toolbox, secrets by reference."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import timedelta
from typing import Literal

import attrs
import pytest

import resilient_bridge as rb
from resilient_bridge.testing import virtual_time
from tests.internals.settings import KINDS, LAYERS, forms_of, new_reading, read_value
from tests.internals.values import Value, as_seconds, count, short_seconds, wanted_by, word
from tests.rows import each_row


FILE = """\
preset = "recursor"                      # everything below is laid over it

[bridge]
url = "wss://host/ws"
token = "env:BRIDGE_TOKEN"
headers = { X-Team = "agents", Authorization = "env:BRIDGE_TOKEN" }
on_gap = "reload"
on_doubt = "reload"

[reconnect]
grace = "4m"

[policies.search]
deadline = "60s"
retry = { attempts = 4, on = ["transient", "Busy"], rules = { 429 = { attempts = 6 }, 5xx = { backoff = "2s" } } }
breaker = {}
timeout = "10s"

[policies.poll]
preset = "gasoline"
breaker = false
timeout = [1, "2s"]

[tools.bash]
timeout = "10m"
idempotent = false

[tools.search]
idempotent = true
required = false
"""


class BusyError(Exception):
    """What the service of these tests raises."""


def reload(gap: rb.bridge.Gap) -> None:
    """What the client does about a gap."""


NAMES = {"reload": reload, "Busy": BusyError}


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setenv("BRIDGE_TOKEN", "hunter2-hunter2")
    path = tmp_path / "resilience.toml"
    path.write_text(FILE)
    return path


def test_a_file_is_the_values_that_code_would_make(path):
    """Named policies, the link laid over its preset, and layers laid over those of theirs."""
    config = rb.load(path, names=NAMES)
    search = config.policies["search"]
    (rule,) = [rule for what, rule in search.layers[1].rules.items() if what != 429]
    assert search == rb.Policy(
        rb.Deadline(60),
        rb.Retry(
            attempts=4,
            on=[rb.Kind.TRANSIENT, BusyError],
            rules={**search.layers[1].rules, 429: rb.Rule(attempts=6)},
        ),
        rb.Breaker(),
        rb.Timeout(10),
    )
    assert rule == rb.Rule(backoff=rb.Backoff.constant(2))
    recursor = rb.presets.recursor
    assert config.bridge.reconnect == recursor.reconnect.evolve(grace=240)
    assert config.bridge.calls == recursor.calls
    assert config.bridge.tools["bash"] == rb.Policy(rb.Timeout(600, thread=True))
    assert config.bridge.tools["read_file"] == recursor.tools["read_file"]
    poll = config.policy("poll")
    assert [type(layer) for layer in poll.layers] == [rb.Retry, rb.Timeout]
    assert poll.layers[0] == rb.presets.gasoline.calls.layers[0]
    assert poll.layers[1].seconds == (1, 2)
    with pytest.raises(rb.ConfigError, match="one of search, poll"):
        config.policy("serch")


def test_the_doors_of_the_values_lead_to_the_same_reader(path):
    """`from_config` on Policy, BridgePolicy, Toolbox and BridgeClient."""
    config = rb.load(path, names=NAMES)
    assert rb.Policy.from_config(path, "search", names=NAMES).layers[0] == rb.Deadline(60)
    assert rb.bridge.BridgePolicy.from_config(path, names=NAMES) == config.bridge
    toolbox = rb.agent.Toolbox.from_config(path, names=NAMES)
    for box in (toolbox, config.toolbox):

        @box.tool
        def search(q: str) -> str:
            """Find it."""
            return q

        @box.tool(name="bash", idempotent=True)
        def shell(q: str) -> str:
            """Run it."""
            return q

        assert (box.tools["search"].idempotent, box.tools["search"].required) == (True, False)
        assert (box.tools["bash"].idempotent, box.tools["bash"].timeout) == (True, 600)  # code wins
    client = rb.BridgeClient.from_config(path, names=NAMES, session_id="s7")
    assert repr(client) == "<BridgeClient wss://host/ws IDLE session=s7 queued=0 unconfirmed=0>"
    assert rb.BridgeClient.from_config({}, url="ws://localhost:1/").session_id
    with pytest.raises(rb.ConfigError, match=r"bridge\.url"):
        rb.BridgeClient.from_config({})


def test_a_secret_is_a_reference_that_is_read_when_it_is_needed(path, tmp_path, monkeypatch):
    """It is nowhere in what settings show, and the next attempt has the rotated one."""
    config = rb.load(path, names=NAMES)
    arguments = config.client.arguments()
    assert (arguments["token"](), arguments["headers"]()["Authorization"]) == (
        "hunter2-hunter2",
    ) * 2
    assert arguments["headers"]()["X-Team"] == "agents"
    monkeypatch.setenv("BRIDGE_TOKEN", "rotated")
    assert arguments["token"]() == "rotated"
    shown = repr(
        (
            config,
            config.client,
            config.merged,
            config.explain(),
            rb.settings.dump(config),
            rb.load(path, names=NAMES).tables,
        )
    )
    assert "hunter2" not in shown
    assert "rotated" not in shown
    assert "env:BRIDGE_TOKEN" in shown
    (tmp_path / "token").write_text("from-a-file\n")
    assert rb.load({"bridge": {"token": f"file:{tmp_path}/token"}}).client.token() == "from-a-file"
    monkeypatch.delenv("BRIDGE_TOKEN")
    with pytest.raises(rb.ConfigError) as caught:
        rb.load(
            {
                "bridge": {
                    "token": "env:BRIDGE_TOKEN",
                    "headers": {"A": f"file:{tmp_path}/none"},
                    "url": "env:NO_URL",
                }
            }
        )
    assert [problem.path for problem in caught.value.problems] == [
        "bridge.token",
        "bridge.headers.A",
        "bridge.url",
    ]


@pytest.mark.requirement("X8")
def test_code_wins_over_the_environment_over_the_file_over_the_preset_over_the_default(tmp_path):
    """One setting for each, and `explain` says which."""
    path = tmp_path / "a.toml"
    path.write_text('preset = "openviber"\n[reconnect]\ngrace = "1m"\nattempts = 7\n')
    env = {
        "RESILIENT_BRIDGE_RECONNECT__GRACE": "90s",
        "RESILIENT_BRIDGE_HEARTBEAT__EVERY_MS": "500",
        "OTHER": "x",
    }
    config = rb.load(path, env=env)
    link = config.bridge
    assert (
        link.reconnect.grace,
        link.reconnect.attempts,
        link.heartbeat.every,
        link.heartbeat.timeout,
    ) == (
        90,
        7,
        0.5,
        30,
    )
    sources = {line.path: line.source for line in config.explain()}
    assert sources["reconnect.grace"] == "RESILIENT_BRIDGE_RECONNECT__GRACE"
    assert sources["reconnect.attempts"] == f"{path}, line 4"
    assert sources["heartbeat.timeout"] == "preset openviber"
    assert sources["heartbeat.probe_timeout"] == "default"
    assert rb.load(path).bridge.reconnect.grace == 60


def test_the_environment_is_read_when_asked_for(monkeypatch):
    """Without `env=True` no variable is looked at; with it `os.environ` is."""
    monkeypatch.delenv("RESILIENT_BRIDGE_REQUIRE_SERVERS", raising=False)  # the tests' own
    monkeypatch.setenv("RESILIENT_BRIDGE_RETRY__ATTEMPTS", "9")
    assert rb.load({}).bridge == rb.presets.default
    assert rb.load(env=True).bridge.calls.layers[0].attempts == 9


@each_row(
    ("text", "value"),
    [("6", 6), ("6.5", 6.5), ("true", True), ("30s", "30s"), ('"6"', "6"), ("[1, 'a']", [1, "a"]), ('{"a": 1}', {"a": 1}),
     ("{a = 1}", {"a": 1}), ("nan", "nan"), ("1979-05-27", "1979-05-27"), ("", ""), ("[1", "[1"), ("1\nx = 2", "1\nx = 2")],
)  # fmt: skip
def test_a_variable_is_a_value_as_in_a_file_or_a_text(text, value):
    """What is no value of TOML or JSON is the text."""
    config = rb.load(
        {"bridge": {"session_id": "s"}}, env={"RESILIENT_BRIDGE_PROVIDERS__X": '"https://h"'}
    )
    assert config.merged.data["providers"] == {"x": "https://h"}
    from tests.internals.settings import read_sources

    assert read_sources(None, {"RESILIENT_BRIDGE_A": text}).data == {"a": value}


def test_a_policy_of_calls_at_the_top_is_that_of_the_bridge():
    """Layers at the top and in `calls` are the same policy, with a state of its own and not the preset's."""
    config = rb.load({"timeout": "5s", "calls": {"breaker": {"consecutive": 3}}, "retry": False})
    assert config.bridge.calls == rb.Policy(rb.Breaker.consecutive(3), rb.Timeout(5))
    assert rb.load({}).bridge.calls.own_states() is not rb.presets.default.calls.own_states()


@attrs.frozen(kw_only=True, repr=False, eq=False)
class Invented(Value):
    """A value that no reader has seen."""

    every: float = attrs.field(default=1.0, converter=as_seconds, validator=short_seconds)
    size_bytes: int = attrs.field(default=1, validator=count)
    mode: Literal["a", "bee"] = attrs.field(default="a", validator=word)
    letters: list[str] = attrs.field(factory=list, converter=sorted)


def test_a_new_field_needs_no_line_in_the_reader():
    """Its annotations say what a field takes: a duration, a size, a word, with `_ms` and near misses."""
    reading = new_reading(None)
    data = {"every_ms": 2500, "size_bytes": "1KiB", "mode": "bee"}
    assert read_value(Invented, data, "x", reading) == Invented(
        every=2.5, size_bytes=1024, mode="bee"
    )
    assert read_value(Invented, {"mode": "be", "every": "2h"}, "x", reading).value == "bad"
    assert [problem.path for problem in reading.problems] == ["x.every", "x.mode"]
    assert (
        read_value(Invented, {"letters": 3}, "y", reading).value == "bad"
    )  # its converter stumbles
    assert read_value(Invented, {"letters": ["b", "a"]}, "y", reading).letters == ["a", "b"]
    assert "did you mean bee?" in reading.problems[1].message


@attrs.frozen
class Evaluated:
    """Its annotations are evaluated, as in a module without the import from `__future__`."""

    mode = attrs.field(type=Literal["a", "bee"] | None, default="a", validator=word)


def test_the_words_of_an_annotation_are_those_that_its_validator_takes():
    """Whether Python evaluates the annotation or not; a Literal with a name of its own has a validator that lists its words."""
    forms = [(kind, name, form) for kind in KINDS.values() for name, form in forms_of(kind).items() if form.words]  # fmt: skip
    assert len(forms) > 10
    for kind, name, form in forms:
        field = attrs.fields_dict(kind)[name]
        if "Literal" not in field.type:
            assert wanted_by(field.validator) == form.wanted == f"one of {', '.join(form.words)}"
    assert Evaluated("bee").mode == "bee"
    with pytest.raises(rb.ConfigError, match=r"Evaluated\.mode: wanted one of a, bee, got 'c'"):
        Evaluated("c")


def test_windows_counts_and_spans():
    """A number of calls, or a span of time."""
    assert rb.load({"kind": "Breaker", "window": "60s"}).window == timedelta(minutes=1)
    assert rb.load({"kind": "Breaker", "window": 20}) == rb.Breaker(window=20)


def test_times_of_two_limits_may_be_in_milliseconds():
    """A field that takes several durations takes them with `_ms`, too."""
    assert rb.load({"timeout": {"seconds_ms": [1000, 2500]}}).bridge.calls.layers[-1] == rb.Timeout(
        (1, 2.5)
    )


@pytest.mark.parametrize(
    "text", ["socketio(acks=True)", "rb.dialects.socketio(namespace='/chat', acks=False)"]
)
def test_dialects_are_spelled_as_on_the_command_line(text):
    """With True and False among the arguments."""
    from tests.internals.cli import read_dialect

    settings = rb.load({"dialect": text}).bridge.dialect
    typed = read_dialect(text.removeprefix("rb.dialects.")).dialect
    assert (settings.confirms, settings.positions) == (typed.confirms, typed.positions)


def test_schedules_are_spelled_as_on_the_command_line():
    """`Backoff.parse`, with its errors."""
    assert rb.Backoff.parse("exponential(1, cap=30)") == rb.Backoff.exponential(1)
    assert rb.Backoff.parse("rb.Backoff.steps(1, 2, then=linear(5))") == rb.Backoff.steps(
        1, 2, then=rb.Backoff.linear(5)
    )
    for text in ("exponental(1)", "", "constant(-1)", "steps(print(1))", 7):
        with pytest.raises(rb.ConfigError) as caught:
            rb.Backoff.parse(text)
        assert caught.value.problems[0].path.startswith("Backoff.")


def test_a_policy_from_a_file_repeats_a_call(path):
    """What was read works: a busy service is asked again, and its waits are those of the file."""
    policy = rb.load(path, names=NAMES).policies["search"]
    calls = []

    @policy(idempotent=True)
    async def search() -> int:
        calls.append(1)
        if len(calls) < 3:
            raise BusyError
        return len(calls)

    with virtual_time():
        assert asyncio.run(search()) == 3


def test_yaml_without_pyyaml_says_what_to_install(tmp_path):
    """The extra is named; TOML, JSON and dicts need nothing."""
    path = tmp_path / "a.yaml"
    path.write_text("preset: recursor\n")
    code = f"import sys; sys.modules['yaml'] = None\nimport resilient_bridge as rb\nrb.load({str(path)!r})"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert "YAML needs the package pyyaml: pip install 'resilient-bridge[yaml]'" in done.stderr


def test_a_client_from_settings_talks_to_a_bridge(monkeypatch):
    """URL, token by reference, policy and function of the settings, on the simulated network."""
    monkeypatch.setenv("BRIDGE_TOKEN", "s3cret-of-the-bridge")
    gaps: list[rb.bridge.Gap] = []

    async def main(server: rb.testing.BridgeServer) -> str:
        settings = {
            "preset": "recursor",
            "bridge": {"url": server.url, "token": "env:BRIDGE_TOKEN", "on_gap": "note"},
            "reconnect": {"backoff": "steps(1, 2)"},
        }
        async with rb.BridgeClient.from_config(settings, names={"note": gaps.append}) as bridge:
            receipt = await bridge.send("tool_result", {"content": "ok"})
            await server.cut("abort")
            return await receipt.confirmed(timeout=30)

    assert rb.testing.simulate(main, seed=1) == "applied"


def test_a_state_is_a_url_and_shared_by_equal_settings():
    """Circuits in Redis: the URL, or a reference to it; it is not written back, because it may hold a secret."""
    layers = {"breaker": {"key": "github"}, "state": "redis://127.0.0.1:6379/0"}
    policy = rb.load({"policies": {"a": layers}}).policies["a"]
    assert policy.state == rb.stores.RedisState("redis://127.0.0.1:6379/0")
    with pytest.raises(rb.ConfigError, match="env:NAME"):
        rb.settings.dump(policy)
    with pytest.raises(rb.ConfigError, match=r"policies\.a\.state"):
        rb.load({"policies": {"a": {**layers, "state": "http://host"}}})


def test_a_state_is_a_path_and_written_back(tmp_path):
    """Adaptive limits of one machine: an absolute path, or one that begins as a path does."""
    layers = {"adaptive_limit": {}, "state": str(tmp_path / "limits")}
    policy = rb.load({"policies": {"a": layers}}).policies["a"]
    assert policy.state == rb.stores.MachineState(tmp_path / "limits")
    assert rb.settings.dump(policy)["state"] == str(tmp_path / "limits")
    home = rb.load({"policies": {"a": {**layers, "state": "~/limits"}}}).policies["a"]
    assert home.state == rb.stores.MachineState("~/limits")
    with pytest.raises(rb.ConfigError, match=r"policies\.a\.state"):
        rb.load({"policies": {"a": {**layers, "state": "~/" + 300 * "a"}}})


@pytest.mark.parametrize("text", ["12345", "1e5", "true", "0x1f", "00042", "inf"])
def test_t03_a_text_that_looks_like_a_number_comes_from_the_environment(text):
    """Where a text is wanted, it is the text that was written; where a number is, a number."""
    env = {"RESILIENT_BRIDGE_BRIDGE__SESSION_ID": text, "RESILIENT_BRIDGE_RETRY__ATTEMPTS": "7"}
    env["RESILIENT_BRIDGE_BREAKER__KEY"] = text
    config = rb.load(env=env)
    assert config.tables["bridge"].session_id == text
    layers = config.bridge.calls.layers
    assert next(layer.attempts for layer in layers if isinstance(layer, rb.Retry)) == 7
    assert next(layer.key for layer in layers if isinstance(layer, rb.Breaker)) == text


def test_a_room_above_the_core_is_imported_when_its_table_stands_in_the_document():
    """The agent and the sidecar: whoever has settings of calls and links does not pay for them."""
    code = """
import sys, resilient_bridge as rb

def above():
    return [name for name in sys.modules if name.startswith(("resilient_bridge.agent.", "resilient_bridge.adapters."))]

rb.load({"retry": {"attempts": 3}, "tools": {"search": {"idempotent": True}}})
assert above() == [], above()
rb.load({"toolbox": {}, "mcp": {"command": ["server"]}})
assert len(above()) > 2
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_each_value_inside_a_policy_can_be_read_and_written_alone():
    """All that a policy is made of is in `KINDS`."""
    inside = [rb.bridge.BridgePolicy, *LAYERS.values()]
    for kind in inside:
        nested = [form.of for form in forms_of(kind).values() if form.of is not object]
        inside += [each for each in nested if each not in inside]
    assert [kind.__name__ for kind in inside if KINDS.get(kind.__name__) is not kind] == []
