"""Redaction measured by corpora: written for it, held back, written later, and in eight rounds of unseen texts."""

from __future__ import annotations

import json
import logging
import random
import time

import pytest

import resilient_bridge as rb
from resilient_bridge.agent import Toolbox
from resilient_bridge.failure import (
    Failure,
    error_for,
    holds_secret,
    redact,
    redact_value,
    sends_secret,
)
from resilient_bridge.report import Incident, page
from resilient_bridge.telemetry import emit
from tests.exporters.otel_sdk import Telemetry
from tests.exporters.test_prometheus import Scraped
from tests.failure.corpora import ROUNDS, parts_of, shows, texts
from tests.internals.client import secrets_of
from tests.internals.failure import redaction, secret_shapes
from tests.rows import each_row


SECRETS = [*texts("secrets"), *texts("secrets_held")]
HARMLESS = [*texts("harmless"), *texts("harmless_held")]
LONG = 100_000


def _escaped(text: str) -> str:
    return redaction._UNSAFE.sub(redaction._escape, text)


@pytest.mark.parametrize("name", ["secrets", "secrets_held", "secrets_later"])
def test_sec1_secrets_are_masked(name):
    """At least 97 of 100 texts come out without any of their secrets, and stay as they are when masked again."""
    found = texts(name)
    shown = [redact(one.text, limit=LONG) for one in found]
    leaked = [
        one.source for one, text in zip(found, shown, strict=True) if shows(text, one.secrets)
    ]
    assert len(leaked) <= len(found) * 0.03, leaked
    assert [text for text in shown if redact(text, limit=LONG) != text] == []


@pytest.mark.parametrize("name", ["harmless", "harmless_held", "harmless_later"])
def test_s02_diagnostics_are_not_changed(name):
    """At least 98 of 100 messages of compilers, servers and libraries come out as they came in."""
    found = texts(name)
    damaged = [one.source for one in found if redact(one.text, limit=LONG) != _escaped(one.text)]
    assert len(damaged) <= len(found) * 0.02, damaged


@pytest.mark.parametrize("name", ROUNDS)
def test_sec1_s01_every_text_of_a_round_is_masked_but_those_it_names(name):
    """No six characters of a secret are left, and what is masked once stays as it is."""
    found = texts(f"secrets_{name}")
    shown = [redact(one.text, limit=LONG) for one in found]
    leaking = {one.source for one, text in zip(found, shown, strict=True) if parts_of(one, text)}
    assert leaking == ROUNDS[name].leaking
    assert [text for text in shown if redact(text, limit=LONG) != text] == []


@pytest.mark.parametrize("name", ROUNDS)
def test_s02_every_diagnostic_of_a_round_stays_but_those_it_names(name):
    """Each comes out as it came in."""
    found = texts(f"harmless_{name}")
    damaged = {one.source for one in found if redact(one.text, limit=LONG) != _escaped(one.text)}
    assert damaged == ROUNDS[name].damaged


@each_row(
    "text",
    [
        "Missing required credential: apiKey",
        "Invalid value for api_key: must be set",
        "unexpected token: '}'",
        "GET https://api.example.com/items?format=json said json",
        '{"password": ["This field is required."]}',
        "auth: none, pass: 12, tokens: 512",
    ],
)
def test_s02_a_word_behind_a_colon_is_no_secret(text):
    """A name, a sentence, a bracket, a count: what the reader needs."""
    assert redact(text) == text


@each_row(
    "text",
    [
        '{"pass": "S3cret99"}',
        "user=me pass=S3cret99",
        "auth=S3cret99token",
        "sid=S3cret99abc",
        "pw=S3cret99",
        "cred: S3cret99",
    ],
)
def test_s01_one_list_of_names_for_text_and_data(text):
    """What is masked as the field of a mapping is masked in the text of one."""
    assert "S3cret99" not in redact(text)
    name = text.strip('{"').replace("user=me ", "").partition("=")[0].partition(":")[0].strip('" ')
    assert redact_value({name: "S3cret99"}) == {name: "[redacted]"}


def test_s02_what_a_field_says_about_a_secret_stays():
    """A state, a sentence, a count or a placeholder under the name of a secret hides nothing."""
    value = {
        "token": "expired",
        "password": ["must be set"],
        "tokens": 512,
        "auth": "none",
        "api_key": "$KEY",
    }
    assert redact_value(value) == {**value, "password": ("must be set",)}


def test_s02_a_masked_value_is_masked_again_only_where_it_is_no_word():
    """A value of letters and digits is found again in the text, a word is not."""
    assert (
        redact("password=hunter2x, so hunter2x failed")
        == "password=[redacted], so [redacted] failed"
    )
    assert redact("?token=json in json") == "?token=[redacted] in json"


def test_s02_a_parameter_of_a_url_that_is_no_secret_is_no_word_to_mask():
    """What a client has sent is masked wherever it comes back, but not `format=json`, nor a harmless header."""
    assert secrets_of("wss://h/?format=json&token=swordfish&v=a1b2c3") == ["swordfish", "a1b2c3"]


def _failures() -> list[Failure]:
    return [
        Failure.of("SYS_INTERNAL_ERROR", one.text, details={"error": one.text}) for one in SECRETS
    ]


def _forms(failure: Failure) -> list[str]:
    error = error_for(failure)
    error.add_note(failure.explain())
    return [
        str(failure),
        repr(failure),
        failure.explain(),
        failure.to_llm(),
        json.dumps(failure.to_mcp(), ensure_ascii=False),
        json.dumps(failure.to_dict(), ensure_ascii=False),
        str(error),
        repr(error),
        repr(error.args),
        *error.__notes__,
    ]


def _leaks(forms: list[list[str]]) -> list[str]:
    return [
        one.source
        for one, shown in zip(SECRETS, forms, strict=True)
        if shows("\n".join(shown), one.secrets)
    ]


def test_sec1_no_form_of_a_failure_shows_a_secret():
    """Message, details and cause: as text, as a model and JSON-RPC get it, as a record, as a note and a repr."""
    assert len(_leaks([_forms(failure) for failure in _failures()])) <= len(SECRETS) * 0.02


def test_sec1_no_file_line_span_label_or_page_shows_a_secret(tmp_path, caplog):
    """The log, the session log, the page of it, a state file and its backup, spans and metrics."""
    caplog.set_level(logging.DEBUG, logger="resilient_bridge")
    log, state = tmp_path / "session.jsonl", rb.stores.StateFile(tmp_path / "state.json", version=1)
    with rb.stores.SessionLog(log, max_bytes=10**8), Telemetry() as telemetry, Scraped() as scraped:
        for failure, one in zip(_failures(), SECRETS, strict=True):
            emit(rb.events.GaveUp(name=one.text, failure=failure))

            @rb.Policy(rb.Retry(attempts=1))(idempotent=False)
            def fails(failure):
                raise error_for(failure)

            with pytest.raises(rb.BridgeError):
                fails(failure)
        spans = [
            repr((one.name, one.attributes, one.status.description)) for one in telemetry.finished()
        ]
        metrics = str(scraped.families())
    for _ in range(2):
        state.save([failure.to_dict() for failure in _failures()])
    incident = Incident()
    incident.source(log.name)
    for line in log.read_bytes().splitlines(keepends=True):
        incident.take(line)
    incident.finish()
    files = [path.read_text("utf-8") for path in tmp_path.iterdir()]
    assert len(files) >= 3
    parts = [caplog.text, metrics, page(incident), *spans, *files]
    shown = "\n".join(parts)
    words = {
        secret for one in SECRETS for secret in one.secrets if len(secret) > 7 and secret.isalnum()
    }
    assert len(words) > 60
    assert [word for word in sorted(words) if word in shown] == []


async def test_sec1_no_tool_result_shows_a_secret():
    """What the model reads when a tool fails with such a text."""
    tools, text = Toolbox(), ""

    @tools.tool
    def fails() -> None:
        """Fail."""
        raise RuntimeError(text)

    leaked = []
    for one in SECRETS:
        text = one.text
        outcome = await tools.call("fails", {})
        if shows(outcome.to_llm() + repr(outcome), one.secrets):
            leaked.append(one.source)
    assert len(leaked) <= len(SECRETS) * 0.02, leaked


def test_any_mix_of_texts_is_masked_for_good():
    """Texts behind each other and cut anywhere: nothing raises, and what was masked once stays as it is."""
    rng, whole = random.Random(1), [one.text for one in [*SECRETS, *HARMLESS]]
    for _ in range(600):
        text = "\n".join(rng.sample(whole, rng.choice((1, 2, 3))))
        cut = text[rng.randrange(40) : rng.randrange(len(text))]
        shown = redact(cut, limit=LONG)
        assert redact(shown, limit=LONG) == shown


def test_sec1_hostile_texts_of_the_new_shapes_cost_linear_time():
    """Tables, SQL, blocks, decoding: eight times the text costs no more than some eight times as much."""
    pieces = [
        "name: token\n",
        "a,token\n",
        "token  a\n",
        "insert into t (token) values ",
        "(token)=(",
        "token:\n  - a\n",
    ]
    pieces += [
        "[SQL: token] [parameters: (",
        "token\n a, input_value=",
        "%2541",
        "&amp;amp;",
        "\\u0041",
        "\x1b[1m",
        "p\u0430ss",
    ]
    pieces += [
        "password: |\n  a\n",
        '"loc":["token"],"input":"',
        'value="a" ',
        "token is ",
        "tokens: [",
        "?code=a&",
        "$2b$12$",
    ]
    rng = random.Random(7)
    for piece in [*pieces, *("".join(rng.sample(pieces, 2)) for _ in range(6))]:
        few, many = (piece * (size // len(piece)) for size in (4_000, 32_000))
        for _ in range(3):
            started = time.process_time()
            secret_shapes.masked(few)
            one = max(time.process_time() - started, 0.0005)
            started = time.process_time()
            secret_shapes.masked(many)
            if (cost := time.process_time() - started) < 28 * one:
                break
        else:
            pytest.fail(f"{piece!r}: {one:.4f} s, then {cost:.4f} s")


@each_row(
    ("query", "holds"),
    [
        ("token=abc", True),
        ("a=1&api_key=k", True),
        ("X-Amz-Signature=ab", True),
        ("sig=a1b2c3", True),
        ("format=json&page=2", False),
        ("token=", False),
        ("max_tokens=5", False),
        ("key=name", False),
        ("", False),
    ],
)
def test_sec5_a_secret_in_a_query(query, holds):
    """By the name of a parameter, where it has a value."""
    assert sends_secret(query) is holds


def test_sec5_a_secret_in_a_body():
    """A form, JSON, and what is neither."""
    assert holds_secret(b"user=a&password=b1")
    assert holds_secret(b'{"client_secret": "x"}')
    assert not holds_secret(b'{"name": "x"}')
    assert not holds_secret(b"\xff\xfe")
    assert not holds_secret(b"")
