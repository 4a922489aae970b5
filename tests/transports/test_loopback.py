"""Whether a host is this machine, judged from its name."""

from __future__ import annotations

import pytest

from tests.internals.transports import is_loopback
from tests.rows import each_row


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST.", "a.localhost", "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"],
)
def test_loopback_is_this_machine(host):
    """Every way to write this machine that needs no DNS counts as loopback."""
    assert is_loopback(host)


@each_row(
    "host",
    [
        "localhost.example",
        "127.0.0.1.example",
        "10.0.0.1",
        "0.0.0.0",
        "2130706433",
        "::2",
        "::ffff:8.8.8.8",
        "",
    ],
)
def test_anything_else_is_not_this_machine(host):
    """A name or address that merely looks local is not loopback, and DNS is not asked."""
    assert not is_loopback(host)
