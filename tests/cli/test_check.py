"""`resilient-bridge check`: every mistake with its path, what is in force and where it comes from, the schema, the providers."""

from __future__ import annotations

import json
import socket

import pytest

from resilient_bridge import cli
from tests.settings.test_mistakes import PATHS, TWELVE


GOOD = """\
preset = "recursor"
[bridge]
url = "wss://host/ws"
on_gap = "reload"
[reconnect]
grace = "4m"
[policies.search]
retry = { on = ["transient", "Busy"] }
timeout = "5s"
"""


@pytest.fixture
def check(capsys, tmp_path):
    def check(text: str | None, *options: str) -> tuple[int, str, str]:
        path = tmp_path / "settings.toml"
        if text is not None:
            path.write_text(text)
        code = cli.main(["check", str(path), *options])
        return code, *capsys.readouterr()

    return check


@pytest.mark.requirement("X8")
@pytest.mark.requirement("V10")
def test_a_bad_file_is_one_line_a_mistake_and_exit_code_1(check, monkeypatch):
    """In the printed form, on stderr; nothing is connected to."""
    monkeypatch.setattr(socket.socket, "connect", lambda *_: pytest.fail("something was started"))
    code, out, err = check(TWELVE)
    assert (code, out) == (1, "")
    lines = err.splitlines()
    assert lines[0] == "Configuration errors:"
    assert len(lines) == 13
    assert all(line.startswith("  - ") for line in lines[1:])


def test_a_bad_file_as_json(check):
    """One object on one line, with path, message, received and line."""
    code, out, err = check(TWELVE, "--json")
    answer = json.loads(out)
    assert (code, err, answer["ok"]) == (1, "", False)
    assert [(row["path"], row["line"]) for row in answer["problems"]] == PATHS


def test_a_good_file_lists_what_the_program_has_to_give(check):
    """Functions have names, which only the program knows; slips of words are no names."""
    code, out, _ = check(GOOD)
    assert code == 0
    assert out.splitlines()[1:] == ["policies: search", "to be given as names=: Busy, reload"]
    assert json.loads(check(GOOD, "--json")[1]) == {
        "ok": True,
        "warnings": [],
        "names": ["Busy", "reload"],
    }
    assert "did you mean transient?" in check(GOOD.replace("transient", "transiant"))[2]


def test_the_key_of_a_layer_is_no_function_that_the_program_has_to_give(check):
    """It may be one, but a name is more likely."""
    text = '[adaptive_limit]\nkey = "quota"\n[effects.verify]\npay = "find"\n'
    code, out, _ = check(text, "--json")
    assert (code, json.loads(out)["names"]) == (0, ["find"])


def test_explain_prints_each_setting_with_its_source(check, monkeypatch):
    """The environment over the file over the preset over the default."""
    monkeypatch.delenv("RESILIENT_BRIDGE_REQUIRE_SERVERS", raising=False)  # the tests' own
    monkeypatch.setenv("RESILIENT_BRIDGE_RECONNECT__ATTEMPTS", "8")
    code, out, _ = check(GOOD, "--explain", "--env")
    lines = {
        line.split(" = ")[0]: " ".join(line.split(" = ", 1)[1].split())
        for line in out.splitlines()
        if " = " in line
    }
    assert code == 0
    assert lines["reconnect.grace"].startswith("240.0 ")
    assert lines["reconnect.grace"].endswith("settings.toml, line 6")
    assert lines["reconnect.attempts"] == "8 RESILIENT_BRIDGE_RECONNECT__ATTEMPTS"
    assert lines["reconnect.on_exhausted"] == '"raise" preset recursor'
    assert lines["policies.search.timeout.seconds"].startswith("[5.0]")
    settings = json.loads(check(GOOD, "--explain", "--json")[1])["settings"]
    assert settings["reconnect.backoff"] == {
        "value": "steps(1, 2, 5, 10, 30)",
        "source": "preset recursor",
    }


def test_a_file_that_is_not_there_is_wrong_usage(check, capsys):
    """Exit code 2, and one line."""
    code, _, err = check(None)
    assert code == 2
    assert err.startswith("resilient-bridge check: FILE: there is no ")
    assert cli.main(["check"]) == 2


def test_warnings_are_printed(check):
    """An order that does harm is allowed, and told."""
    code, out, _ = check('[policies.a]\nbreaker = {}\nretry = {}\norder = ["breaker", "retry"]\n')
    assert code == 0
    assert "warning: policies.a: " in out
    assert "Breaker outside of Retry" in out


def test_the_schema_accepts_what_the_reader_accepts(capsys):
    """The pages' own examples, the specifications' words, and every preset as data; it refuses an unknown key."""
    jsonschema = pytest.importorskip("jsonschema")
    import tomllib

    import resilient_bridge as rb

    assert cli.main(["check", "--schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    validator = jsonschema.Draft202012Validator(schema)
    jsonschema.Draft202012Validator.check_schema(schema)
    good = [
        tomllib.loads(GOOD),
        {"retry": {"max_attempts": 3, "base_delay_ms": 1, "backoff": "linear"}},
        {"breaker": {"maxFailures": 3}},
    ]
    for name in sorted({*rb.presets.__all__} - {"BridgePolicy"}):
        dumped = rb.settings.dump(getattr(rb.presets, name))
        good.append({key: value for key, value in dumped.items() if key != "kind"})
    for data in good:
        assert not list(validator.iter_errors(data)), data
        rb.load(data, names={"reload": print, "Busy": OSError})
    assert list(validator.iter_errors({"retries": 3}))
    assert list(validator.iter_errors({"reconnect": {"on_exhausted": "suspent"}}))


def test_a_file_without_providers_has_none_to_connect_to(check):
    """It is right, with `--providers` as without."""
    code, out, err = check(GOOD, "--providers")
    assert (code, err) == (0, "")
    assert out.splitlines()[0].endswith("settings.toml: right")


@pytest.mark.real
def test_providers_are_connected_to_within_one_timeout(check):
    """One that listens is right, one that does not is a problem, and both together take no longer than the limit."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            free = closed.getsockname()[1]
        text = f'[providers]\nhere = "http://127.0.0.1:{port}"\ngone = "http://127.0.0.1:{free}"\n'
        code, _, err = check(text, "--providers", "--timeout", "2")
        assert code == 1
        assert [line.split(": ")[0] for line in err.splitlines()[1:]] == ["  - providers.gone"]
        assert check(text.partition("gone")[0], "--providers")[0] == 0
