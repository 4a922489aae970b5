"""Which calls share an adaptive limit: those of one credential, method, route and model; and no secret is in a key."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.internals.adapters import limit_keys
from tests.rows import each_row


def key(method="GET", url="https://host/v1/messages", **more):
    return limit_keys.key_of_request((httpx.Request(method, url, **more),), {})


@each_row(
    ("path", "route"),
    [
        ("/v1/messages", "/v1/messages"),
        (
            "/v1beta/models/gemini-1.5-pro:generateContent",
            "/v1beta/models/gemini-1.5-pro:generateContent",
        ),
        (
            "/openai/deployments/gpt-4o/chat/completions",
            "/openai/deployments/gpt-4o/chat/completions",
        ),
        ("/users/17/files/18.5", "/users/*/files/*"),
        ("/runs/3f2c1b6a-1c2d-4e5f-8a9b-0c1d2e3f4a5b/log", "/runs/*/log"),
        ("/files/file-9xYz8aBcDeFgHiJk1234", "/files/*"),
        ("/msg_01XFDUDYJgAACzvnptvVoYEL", "/*"),
        ("/2024-11-29", "/*"),
        ("/sha/da39a3ee5e6b4b0d3255bfef95601890afd80709", "/sha/*"),
        ("/v2", "/v2"),
        ("", ""),
        ("/a?token=secret", "/a"),
    ],
)
def test_a_route_has_no_ids_and_numbers(path, route):
    assert limit_keys.route_of(path) == route


def test_a_route_of_any_length_is_short():
    assert len(limit_keys.route_of("/a" * 100_000)) <= 200


@each_row(
    "headers",
    [
        {"authorization": "Bearer secret-one"},
        {"authorization": "Basic c2VjcmV0LW9uZQ=="},
        {"authorization": "secret-one"},
        {"x-api-key": "secret-one"},
        {"api-key": "secret-one"},
        {"x-goog-api-key": "secret-one"},
    ],
    ids=str,
)
def test_a_credential_is_a_digest(headers):
    """The same for the same secret, another for another, and the secret is not in it."""
    ((name, value),) = headers.items()
    found = key(headers=headers)
    assert found == key(headers=headers)
    assert found[0]
    assert found != key(headers={name: value + "x"})
    assert found != key()
    assert "secret" not in repr(found)
    assert value not in repr(found)


@each_row(
    "scheme",
    ["AWS4-HMAC-SHA256 Credential=AKIA/2024, Signature=abc", "DPoP eyJ.abc", "Digest username=x"],
    ids=str,
)
def test_what_is_new_with_each_request_is_no_credential(scheme):
    assert key(headers={"authorization": scheme}) == key(headers={"authorization": scheme + "9"})
    assert key(headers={"authorization": scheme})[0] == ""


def test_method_and_model_are_parts_of_it():
    def asked(model, method="POST"):
        body = json.dumps({"messages": [{"content": 'say "model": "x"'}], "model": model})
        return key(method, content=body)

    assert asked("gpt-4o")[-1] == "gpt-4o"
    assert asked("gpt-4o") != asked("o3")
    assert asked("gpt-4o") != asked("gpt-4o", "PUT")


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff\xfe", b"{", b'{"model": 17}', iter([b"x"]), None],
    ids=["empty", "no text", "cut", "no name", "an iterator", "none"],
)
def test_any_body_will_do(body):
    assert key("POST", content=body)[-1] == ""


def test_the_model_at_the_end_of_a_long_body_is_found():
    body = b'{"input": "' + b"x" * 200_000 + b'", "model": "big"}'
    assert limit_keys.model_in(body) == "big"
