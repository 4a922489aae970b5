"""A bad file: every mistake at once, each with its path, its line and what may be meant; and nothing is started."""

from __future__ import annotations

import difflib
import pickle

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import resilient_bridge as rb
from tests.rows import each_row


TWELVE = """\
preset = "recursr"
retries = 3

[bridge]
url = "https://host/ws"
token = "s3cr3t-t0ken-value"

[reconnect]
on_exhausted = "suspent"
grace = "5 minutes"

[outbox]
max_bytes = "8 mebi"

[policies.search]
retry = { attemts = 4, on = ["transiant"], backoff = "exponental(1)" }
breaker = { rate = 1.5 }

[tools.run]
idempotent = "yes"
"""
PATHS = [
    ("preset", 1),
    ("retries", 2),
    ("bridge.url", 5),
    ("bridge.token", 6),
    ("reconnect.on_exhausted", 9),
    ("reconnect.grace", 10),
    ("outbox.max_bytes", 13),
    ("policies.search.retry.attemts", 16),
    ("policies.search.retry.on[0]", 16),
    ("policies.search.retry.backoff", 16),
    ("policies.search.breaker.rate", 17),
    ("tools.run.idempotent", 20),
]


def _problems(source, **options):
    with pytest.raises(rb.ConfigError) as caught:
        rb.load(source, **options)
    return caught.value


@pytest.mark.requirement("X8")
@pytest.mark.requirement("V10")
def test_a_file_with_twelve_mistakes_has_twelve_lines(tmp_path):
    """In the order of the file, with what was wanted, what was got, and the near miss; the secret is in none of them."""
    path = tmp_path / "resilience.toml"
    path.write_text(TWELVE)
    error = _problems(path)
    assert [(problem.path, problem.line) for problem in error.problems] == PATHS
    lines = str(error).splitlines()
    assert lines[0] == "Configuration errors:"
    assert [line.split(": ")[0] for line in lines[1:]] == [f"  - {path}" for path, _ in PATHS]
    text = str(error)
    for words in (
        "preset: wanted one of ccsetup, default, gasoline, openviber, recursor, stdiobus, got 'recursr', did you mean recursor?",
        "retries: unknown key, did you mean retry?",
        "reconnect.on_exhausted: wanted one of suspend, raise, got 'suspent', did you mean suspend? (line 9)",
        "policies.search.retry.attemts: unknown key, did you mean attempts?",
        "got 'transiant', did you mean transient?",
    ):
        assert words in text
    shown = (
        text
        + repr(error)
        + str(error.failure.to_dict())
        + error.failure.explain()
        + repr(error.problems)
    )
    assert "s3cr3t" not in shown
    assert str(pickle.loads(pickle.dumps(error))) == text


def test_the_same_mistakes_from_yaml_have_their_lines(tmp_path):
    """A path and a line for each, also inside of flow tables."""
    path = tmp_path / "resilience.yaml"
    path.write_text(
        "reconnect:\n  grace: soon\npolicies:\n  search:\n    retry: {attempts: 0}\n    brekaer: {}\n"
    )
    error = _problems(path)
    assert [(problem.path, problem.line) for problem in error.problems] == [
        ("reconnect.grace", 2),
        ("policies.search.retry.attempts", 5),
        ("policies.search.brekaer", 6),
    ]


@each_row(
    ("data", "path", "words"),
    [
        ({"retry": 3}, "retry", "wanted a table of settings, got 3"),
        ({"policies": {"a": {"retry": {"backoff": {"seconds": 1}}}}}, "policies.a.retry.backoff.shape", "it is missing"),
        ({"policies": {"a": {}}}, "policies.a", "at least one layer"),
        ({"policies": {"a": {"idempotent": True, "retry": {}}}}, "policies.a.idempotent", "[tools.search] idempotent = true"),
        ({"policies": {"a": {"bulkhead": {}}}}, "policies.a.bulkhead.calls", "it is missing"),
        ({"policies": {"a": {"retry": {}, "timeout": "1s", "order": ["retry"]}}}, "policies.a.order", "each layer once: retry, timeout"),
        ({"policies": {"a": {"fallback": "cache"}}}, "policies.a.fallback[0]", "by a name in names="),
        ({"policies": {"a": {"retry": {"on": "os:system()"}}}}, "policies.a.retry.on", "wanted a failure"),
        ({"policies": {"a": {"retry": {"on_result": "os.system"}}}}, "policies.a.retry.on_result", "by a name in names="),
        ({"policies": {"a": {"retry": {"budget": {"ratio": 0, "floor": 0}}}}}, "policies.a.retry.budget.floor", "above 0"),
        ({"breaker": {"minimum": 60}}, "breaker.minimum", "at most the"),
        ({"breaker": {"window": "soon"}}, "breaker.window", "a span of time"),
        ({"reconnect": {"grace": 1, "grace_ms": 1}}, "reconnect.grace_ms", "grace once"),
        ({"reconnect": {"grace_ms": "1s"}}, "reconnect.grace_ms", "milliseconds as a number"),
        ({"reconnect": {"rules": {"429": {"attempt": 1}}}}, "reconnect.rules.429.attempt", "did you mean attempts?"),
        ({"dialect": "plane"}, "dialect", "did you mean plain?"),
        ({"dialect": "sequence(field='seq')"}, "dialect", "ask"),
        ({"dialect": "sequence(field=__import__('os'), ask='a')"}, "dialect", "a call of"),
        ({"dialect": {"pong": False}}, "dialect.pong", "a name while ping has one"),
        ({"bridge": {"url": "wss://user:pa55word@host/"}}, "bridge.url", "as it holds a password, got '***'"),
        ({"bridge": {"headers": {"Authorization": "Bearer abcdefgh"}}}, "bridge.headers.Authorization", "env:NAME or file:PATH"),
        ({"bridge": {"pin": "sha256:12"}}, "bridge.pin", "64 hexadecimal digits"),
        ({"bridge": {"pin": []}}, "bridge.pin", "or a list of such texts"),
        ({"bridge": {"pin": ["sha256:12"]}}, "bridge.pin", "or a list of such texts"),
        ({"bridge": {"pin": 7}}, "bridge.pin", "or a list of such texts"),
        ({"bridge": {"store": ""}}, "bridge.store", "a path"),
        ({"toolbox": {"policy": "serch"}, "policies": {"search": {"retry": {}}}}, "toolbox.policy", "did you mean search?"),
        ({"providers": {"openai": "api.openai.com"}}, "providers.openai", "the URL of a server"),
        ({"budget": {"mode": "sofd"}}, "budget.mode", "did you mean soft?"),
        ({"kind": "Retri"}, "kind", "wanted one of"),
        ({"policies": {"a": {"retry": {}, "state": "env:NO_SUCH_VARIABLE"}}}, "policies.a.state", "a variable that is set"),
        ({"breaker": {"initialBackoff": [1]}}, "breaker.initialBackoff", "milliseconds as a number, got [1]"),
        ({"breaker": {"resetTimeout": [1, 2]}}, "breaker.resetTimeout", "milliseconds as a number"),
        ({"retry": {"base_delay_ms": [1]}}, "retry.base_delay_ms", "milliseconds as a number"),
        ({"retry": {"base_delay_ms": 1, "backoff": {"shape": "linear"}}}, "retry.backoff", "one of linear, exponential, jittered"),
        ({"retry": {"max_delay_ms": 1, "backoff": []}}, "retry.backoff", "one of linear, exponential, jittered"),
        ({"tools": {"default_timeout_ms": [1, 2]}}, "tools.default_timeout_ms", "milliseconds as a number"),
        ({"tools": {"per_tool": {"saw": [1]}}}, "tools.per_tool.saw", "milliseconds as a number"),
        ({"timeout": {"seconds_ms": [1000, "2s"]}}, "timeout.seconds_ms[1]", "milliseconds as a number"),
        ({"policies": 5}, "policies", "a table of policies by name, got 5"),
        ({"providers": [1]}, "providers", "a table of URLs by name, got [1]"),
        ({"dialect": "socketio(acks=maybe)"}, "dialect", "a number, True, False, a word in quotes or a dialect expected"),
    ],
)  # fmt: skip
def test_each_mistake_has_its_path(data, path, words):
    """Wrong shapes, words, functions, permissions, secrets and fields that do not fit together."""
    found = {problem.path: problem.message for problem in _problems(data).problems}
    assert path in found, found
    assert words in found[path]
    assert "pa55word" not in str(found)
    assert "abcdefgh" not in str(found)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.toml", "a = [1\n", "not TOML"),
        ("a.ini", "", "ends in one of .toml, .json, .yaml, .yml"),
        ("b.json", "[]", "wanted a table of settings, got a list"),
        ("missing.toml", None, "cannot be read: no such file or directory"),
    ],
)
def test_a_file_that_is_none_is_one_problem(tmp_path, name, text, words):
    """Its path is the file's name."""
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    (problem,) = _problems(path).problems
    assert problem.path == str(path)
    assert words in problem.message


def test_a_directory_or_a_pipe_is_no_file(tmp_path):
    """A pipe would be waited for."""
    import os

    folder, pipe = tmp_path / "a.toml", tmp_path / "b.toml"
    folder.mkdir()
    os.mkfifo(pipe)
    for path in (folder, pipe):
        assert "wanted a file" in _problems(path).problems[0].message


def test_problems_are_bounded():
    """Of five hundred mistakes the first are told, and how many more there are."""
    error = _problems({f"wrong{n}": n for n in range(500)})
    assert len(error.problems) == 50
    assert error.problems[-1].message == "and 451 more problems"
    assert len(str(error)) < 21_000


def test_near_misses_are_looked_for_while_they_are_of_use(monkeypatch):
    """Of thousands of mistakes the first fifty are told, of words and of codes alike."""
    looked = []
    monkeypatch.setattr(
        difflib, "get_close_matches", lambda *args, **_: looked.append(args) or ["conn_reset"]
    )
    _problems({"retry": {"on": [f"transiant{n}" for n in range(4_900)]}})
    assert len(looked) == 50
    _problems({"retry": {"on": [f"CONN_RESETT{n}" for n in range(4_900)]}})
    assert len(looked) == 100


@pytest.mark.parametrize("options", [{"names": ["f"]}, {"env": "RESILIENT_BRIDGE_"}])
def test_wrong_arguments_are_named(options):
    """What is no mapping of names, and no environment; and a source that is none."""
    with pytest.raises(rb.ConfigError, match=f"load.{next(iter(options))}"):
        rb.load({}, **options)
    with pytest.raises(rb.ConfigError, match=r"load\.source"):
        rb.load(5)
    with pytest.raises(rb.ConfigError, match=r"load\.kind"):
        rb.load({}, int)
    with pytest.raises(rb.ConfigError, match=r"dump\.value"):
        rb.settings.dump(5)


KEYS = st.sampled_from(
    "retry breaker timeout deadline bulkhead rate_limit fallback policies tools bridge reconnect outbox dialect calls budget rules on "
    "attempts backoff window grace url token order preset shape seconds cap max_attempts base_delay_ms initialBackoff maxBackoff maxFailures "
    "resetTimeout per_tool default_timeout_ms idempotent headers model name skills positions ends then kind value".split()
) | st.text(max_size=4)  # fmt: skip
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.requirement("V10")
def test_a_mistake_in_a_variable_names_the_variable(tmp_path):
    """Also inside of its value, and beside a file, whose own mistakes have their lines; what may be a secret is not shown."""
    path = tmp_path / "resilience.toml"
    path.write_text("[reconnect]\ngrace = 'soon'\nattempts = 3\n")
    variables = {
        "RESILIENT_BRIDGE_RECONNECT__ATTEMPTS": "0",
        "RESILIENT_BRIDGE_RETRY": '{on = ["transiant"]}',
        "RESILIENT_BRIDGE_BRIDGE__TOKEN": "hunter2-hunter2",
        "RESILIENT_BRIDGE_RETRYS": "hunter2-hunter2",
    }
    error = _problems(path, env=variables)
    found = {problem.path: problem for problem in error.problems}
    ends = {
        "reconnect.attempts": "got 0 (from RESILIENT_BRIDGE_RECONNECT__ATTEMPTS)",
        "retry.on[0]": "did you mean transient? (from RESILIENT_BRIDGE_RETRY)",
        "bridge.token": "got '***' (from RESILIENT_BRIDGE_BRIDGE__TOKEN)",
        "retrys": "unknown key, did you mean retry? (from RESILIENT_BRIDGE_RETRYS)",
    }
    for at, end in ends.items():
        assert found[at].message.endswith(end), found[at]
    assert found["reconnect.grace"].message.endswith("got 'soon'")
    assert found["reconnect.grace"].line == 2
    assert "hunter2" not in str(error) + repr(error) + repr(error.problems) + str(
        error.failure.to_dict()
    )
    alone = _problems(None, env={"RESILIENT_BRIDGE_RETRY__ATTEMPTS": "0"})
    assert alone.problems[0].message.endswith("got 0 (from RESILIENT_BRIDGE_RETRY__ATTEMPTS)")
    gasoline = _problems({"preset": "gasoline"}, env={"GASOLINE_PORT": "99999"})
    assert gasoline.problems[0].message.endswith("got 99999 (from GASOLINE_PORT)")


@pytest.mark.requirement("X8")
@settings(max_examples=120)
@given(st.dictionaries(KEYS, ANY, max_size=5))
def test_any_plain_data_is_settings_or_an_error(data):
    """Whatever stands there: a Config, or a ConfigError with paths, and nothing else."""
    try:
        rb.load(data)
    except rb.ConfigError as error:
        assert error.problems
        assert str(error)


@pytest.mark.requirement("X8")
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(raw=st.binary(max_size=80) | st.text("ab[]{}=:\n\"'.1-", max_size=40).map(str.encode))
@pytest.mark.parametrize("form", ["toml", "yaml", "json"])
def test_arbitrary_bytes_are_settings_or_an_error(tmp_path, form, raw):
    """A file of anything."""
    path = tmp_path / f"any.{form}"
    path.write_bytes(raw)
    try:
        rb.load(path)
    except rb.ConfigError as error:
        assert error.problems[0].message


@given(
    st.dictionaries(
        st.sampled_from(
            ["RETRY", "RETRY__ATTEMPTS", "PRESET", "A__B__C", "", "__", "POLICIES__A", "ÄÖ"]
        ),
        st.text(max_size=20),
    )
)
@settings(max_examples=100)
def test_any_environment_is_settings_or_an_error(variables):
    """Names and values that fit nothing."""
    try:
        rb.load(env={f"RESILIENT_BRIDGE_{name}": value for name, value in variables.items()})
    except rb.ConfigError as error:
        assert error.problems
