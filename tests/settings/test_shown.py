"""What settings show of themselves: `explain`, changes, reprs and errors have the right place of each setting, and no credentials."""

from __future__ import annotations

import pytest

import resilient_bridge as rb
from tests.rows import each_row


TOOLS = """\
preset = "recursor"

[tools]
default_timeout_ms = 30000

[tools.per_tool]
saw = 1500

[tools.bash]
timeout = "10m"
idempotent = false
"""


def _sources(config):
    return {line.path: line.source for line in config.explain()}


def _refusal(data):
    with pytest.raises(rb.ConfigError) as caught:
        rb.load(data)
    error = caught.value
    shown = str(error) + repr(error) + repr(error.problems) + str(error.failure.to_dict())
    return {problem.path: problem.message for problem in error.problems}, shown


@pytest.mark.requirement("X8")
def test_what_the_file_says_of_tools_has_its_line(tmp_path):
    """Timeouts and permissions are read from other paths than those that they are shown at."""
    path = tmp_path / "a.toml"
    path.write_text(TOOLS)
    sources = _sources(rb.load(path))
    assert sources["tool_timeouts.default"] == f"{path}, line 4"
    assert sources["tool_timeouts.saw"] == f"{path}, line 7"
    assert sources["tool_permissions.bash.idempotent"] == f"{path}, line 11"


@pytest.mark.parametrize("tools", [{}, {"tools": ["saw", "drill"]}])
def test_the_tools_of_an_agent_do_not_hide_those_of_the_bridge(tools):
    """A list of names, or none, stands beside the policies that the preset has for tools."""
    found = {line.path: line.value for line in rb.load({"preset": "recursor"}).explain()}
    wanted = {path: value for path, value in found.items() if path.startswith("tools.")}
    assert wanted
    agent = {"preset": "recursor", "model": "a/b", "name": "c", **tools}
    config = rb.load(agent)
    lines = {line.path: line.value for line in config.explain()}
    assert {path: value for path, value in lines.items() if path.startswith("tools.")} == wanted
    assert lines.get("tools") == tools.get("tools")
    assert _sources(config)["tools.bash.timeout.thread"] == "preset recursor"


@pytest.mark.requirement("X8")
def test_the_source_of_a_setting_is_that_of_its_value(tmp_path):
    """Gasoline's own variables win over the file, and ours over both; an error names the one that won."""
    path = tmp_path / "a.toml"
    path.write_text('preset = "gasoline"\n[gasoline]\nport = 1\ndebug = false\n')
    variables = {"GASOLINE_PORT": "7891", "DEBUG": "gasoline:*"}
    sources = _sources(rb.load(path, env=variables))
    assert sources["gasoline.port"] == "GASOLINE_PORT"
    assert sources["gasoline.debug"] == "DEBUG"
    ours = rb.load(path, env={**variables, "RESILIENT_BRIDGE_GASOLINE__PORT": "7892"})
    assert _sources(ours)["gasoline.port"] == "RESILIENT_BRIDGE_GASOLINE__PORT"
    assert ours.tables["gasoline"].port == 7892
    with pytest.raises(rb.ConfigError) as caught:
        rb.load(path, env={"GASOLINE_PORT": "99999"})
    assert [problem.line for problem in caught.value.problems] == [None]


@pytest.mark.requirement("X8")
def test_providers_are_explained_and_their_changes_returned():
    """By name, and without what their URL asks for."""
    data = {"providers": {"near": "https://host/v1?api_key=hunter2-hunter2"}}
    config = rb.load(data)
    (line,) = [line for line in config.explain() if line.path.startswith("providers")]
    assert line == ("providers.near", "https://host/v1", "a dict")
    data["providers"] = {"near": "https://host/v1?api_key=rotated-rotated", "far": "wss://other:1/"}
    changes = config.reload()
    assert [str(change) for change in changes] == [
        "providers.far: None → 'wss://other:1/'",
        "providers.near: 'https://host/v1' → 'https://host/v1'",
    ]


@pytest.mark.requirement("X8")
def test_the_address_of_the_bridge_is_shown_without_its_query():
    """In `explain`, a change and a repr; another query is a change all the same."""
    data = {"bridge": {"url": "wss://host/ws?ticket=hunter2-hunter2"}}
    config = rb.load(data)
    assert config.client.url == "wss://host/ws?ticket=hunter2-hunter2"
    assert {line.path: line.value for line in config.explain()}["bridge.url"] == "wss://host/ws"
    assert repr(config.client) == "ClientSettings(url='wss://host/ws')"
    data["bridge"] = {"url": "wss://host/ws?ticket=rotated-rotated"}
    changes = config.reload()
    assert [change.path for change in changes] == ["bridge.url"]
    shown = repr((changes, config.explain(), config.client, config.tables))
    assert "hunter2" not in shown
    assert "rotated" not in shown


@each_row(
    ("data", "path", "words"),
    [
        ({"bridge": {"url": "wss://hunter2@host/ws"}}, "bridge.url", "env:NAME or file:PATH, as it holds a user name"),
        ({"bridge": {"url": "https://host/ws?ticket=hunter2"}}, "bridge.url", "begins with ws:// or wss://"),
        ({"bridge": {"url": "https://hunter2@host/ws"}}, "bridge.url", "begins with ws:// or wss://"),
        ({"providers": {"a": "https://me:hunter2@host"}}, "providers.a", "without a user name or a password"),
        ({"providers": {"a": "https://hunter2@host"}}, "providers.a", "without a user name or a password"),
        ({"providers": {"a": "ftp://me:hunter2@host"}}, "providers.a", "the URL of a server"),
        ({"providers": {"a": "ftp://host?key=hunter2"}}, "providers.a", "the URL of a server"),
        ({"policies": {"a": {"breaker": {}, "state": "redis://:hunter2@host/0"}}}, "policies.a.state", "as it holds a password"),
        ({"policies": {"a": {"breaker": {}, "state": "rediss://me:hunter2@host"}}}, "policies.a.state", "env:NAME or file:PATH"),
        ({"calls": {"state": "http://me:hunter2@host"}}, "calls.state", "env:NAME or file:PATH"),
    ],
)  # fmt: skip
def test_credentials_in_a_url_are_refused_and_not_shown(data, path, words):
    """So nothing that prints or writes settings can show them."""
    problems, shown = _refusal(data)
    assert list(problems) == [path]
    assert words in problems[path]
    assert "hunter2" not in shown


def test_a_wrong_address_without_secrets_is_shown_as_it_was_written():
    """Whoever mistyped its scheme sees that."""
    problems, _ = _refusal({"bridge": {"url": "htps://host/ws"}})
    assert problems["bridge.url"].endswith("got 'htps://host/ws'")


def test_a_state_by_reference_may_have_credentials(monkeypatch):
    """It is the variable that has them."""
    monkeypatch.setenv("STATE_URL", "redis://:hunter2-hunter2@127.0.0.1/0")
    policy = rb.load({"policies": {"a": {"breaker": {}, "state": "env:STATE_URL"}}}).policies["a"]
    assert policy.state == rb.stores.RedisState("redis://:hunter2-hunter2@127.0.0.1/0")
    assert "hunter2" not in repr(policy)
