"""What a sidecar is told, and what it refuses to be told."""

from __future__ import annotations

from datetime import timedelta

import pytest

from resilient_bridge import Backoff, Breaker, ConfigError, RateLimit
from resilient_bridge.adapters import Sidecar
from tests.rows import each_row


def test_a_command_alone_is_enough():
    """A command alone is enough."""
    found = Sidecar(command=["npx", "server"])
    assert found.command == ("npx", "server")
    assert found.is_command
    assert (found.patience, found.start_timeout, found.timeout, found.deadline) == (
        30.0,
        55.0,
        None,
        None,
    )
    assert not found.trust_hints
    assert not found.log_arguments
    assert not found.status_tool
    assert not Sidecar(url="https://h/mcp").is_command


@each_row(
    ("options", "names"),
    [
        ({}, "a command or a url"),
        ({"command": ("a",), "url": "http://h"}, "a command or a url"),
        ({"url": "ftp://h"}, "url"),
        ({"url": 5}, "url"),
        ({"command": ("",)}, "command"),
        ({"command": ("a\0b",)}, "command"),
        ({"command": ("a", 5)}, "command"),
        ({"headers": {"": "x"}}, "headers"),
        ({"headers": {"A": 5}}, "headers"),
        ({"headers": []}, "headers"),
        ({"env": {"A": None}}, "env"),
        ({"cwd": 5}, "cwd"),
        ({"patience": -1}, "patience"),
        ({"patience": "long"}, "patience"),
        ({"patience": float("nan")}, "patience"),
        ({"start_timeout": 0}, "start_timeout"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"timeouts": {"order": 0}}, "timeouts"),
        ({"timeouts": {"order": "x"}}, "timeouts"),
        ({"timeouts": 5}, "timeouts"),
        ({"deadline": -1}, "deadline"),
        ({"idempotent": ("",)}, "idempotent"),
        ({"trust_hints": "yes"}, "trust_hints"),
        ({"check": {"order": ""}}, "check"),
        ({"concurrency": {"order": 0}}, "concurrency"),
        ({"concurrency": {"order": 1.5}}, "concurrency"),
        ({"concurrency": {"order": True}}, "concurrency"),
        ({"rates": {"order": 5}}, "rates"),
        ({"circuit": None}, "circuit"),
        ({"backoff": 5}, "backoff"),
    ],
)
def test_a_bad_field_is_named(options, names):
    """A bad field is named."""
    server = {} if "url" in options or "command" in options or not options else {"command": ("s",)}
    with pytest.raises(ConfigError, match=names):
        Sidecar(**server, **options)


def test_durations_are_seconds_or_timedeltas():
    """Durations are seconds or timedeltas."""
    found = Sidecar(
        command=("s",), patience=timedelta(minutes=1), timeouts={"order": timedelta(seconds=2)}
    )
    assert found.patience == 60
    assert found.timeout_of("order") == 2
    assert found.timeout_of("other") is None
    assert Sidecar(command=("s",), timeout=5, timeouts={"a": 1}).timeout_of("b") == 5


def test_the_limits_take_the_values_that_they_are_in_the_package():
    """The limits take the values that they are in the package."""
    Sidecar(
        url="http://h",
        rates={"*": RateLimit(calls=1, per=1)},
        concurrency={"*": 1},
        circuit=Breaker.consecutive(2),
        backoff=Backoff.constant(1),
    )


@pytest.mark.parametrize(
    "found",
    [
        Sidecar(command=("server", "--token", "s3cret"), env={"TOKEN": "s3cret"}),
        Sidecar(
            url="https://me:s3cret@host/mcp?key=s3cret", headers={"Authorization": "Bearer s3cret"}
        ),
    ],
)
def test_a_secret_is_not_in_its_name(found):
    """A secret is not in its name."""
    assert "s3cret" not in repr(found)
    assert "Sidecar" in repr(found)


@pytest.mark.parametrize("bad", [b"s3cret", ["s3cret"], "s3cret\0"])
@pytest.mark.parametrize("field", ["headers", "env"])
def test_a_value_in_a_refusal_is_no_secret(field, bad):
    """A value in a refusal is no secret."""
    if field == "env" and isinstance(bad, str):
        bad = [bad]
    with pytest.raises(ConfigError) as caught:
        Sidecar(url="https://h", **{field: {"TOKEN": bad}})
    assert "s3cret" not in str(caught.value)
