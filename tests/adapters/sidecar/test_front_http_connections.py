"""Which connections are kept when there are too many, and the numbers that say how many."""

from __future__ import annotations

import pytest

import resilient_bridge as rb
from tests.internals.adapters import Connections, HttpLimits, within_open_files


class OpenConnection:
    """A connection that remembers that it was cut."""

    def __init__(self, *, is_idle=False):
        self.is_idle, self.is_cut = is_idle, False

    def cut(self):
        self.is_cut = True


def book_of(connections):
    """A book for so many connections, and what it says of those it refused."""
    refused = []
    limits = HttpLimits(connections=connections)
    return Connections(limits, lambda reason, text: refused.append(reason)), refused


def test_a_new_stranger_replaces_the_oldest():
    """M03: and never that of a client that was admitted, however many strangers come."""
    book, refused = book_of(16)
    clients = [OpenConnection() for _ in range(12)]
    for client in clients:
        book.arrived(client)
        assert book.admit(client)
    strangers = [OpenConnection() for _ in range(320)]
    for stranger in strangers:
        book.arrived(stranger)
    assert not any(client.is_cut for client in clients)
    assert [stranger.is_cut for stranger in strangers] == [True] * 316 + [False] * 4
    assert refused == ["strangers"] * 316
    book.closed(clients[0])
    assert book.admit(strangers[-1])


def test_clients_have_a_number_too():
    """The oldest idle connection is closed for a new client; if none is idle, the new one is refused."""
    book, refused = book_of(4)
    busy, idle, third, fourth, fifth = (
        OpenConnection(),
        OpenConnection(is_idle=True),
        OpenConnection(),
        OpenConnection(),
        OpenConnection(),
    )
    for one in (busy, idle, third, fourth):
        book.arrived(one)
        assert book.admit(one)
    assert (busy.is_cut, idle.is_cut, third.is_cut) == (False, True, False)
    book.arrived(fifth)
    assert not book.admit(fifth)
    assert book.admit(busy)
    assert refused == ["connections"]
    book.closed(busy)
    assert book.admit(fifth)


def test_room_is_made_among_strangers_only():
    """When no file is left for a connection."""
    book, refused = book_of(8)
    client, stranger = OpenConnection(), OpenConnection()
    book.arrived(client)
    assert book.admit(client)
    book.arrived(stranger)
    for _ in range(3):
        book.make_room()
    assert (client.is_cut, stranger.is_cut, refused) == (False, True, [])


def test_connections_are_half_of_the_open_files(monkeypatch):
    """The rest is for servers; a low limit of files lowers the number, a high one does not raise it."""
    resource = pytest.importorskip("resource")
    for files, connections in ((256, 128), (3, 2), (1 << 20, 400), (resource.RLIM_INFINITY, 400)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, files=files: (files, files))
        assert within_open_files(HttpLimits()).connections == connections


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("connections", 1),
        ("connections", "400"),
        ("sessions", 0),
        ("servers", True),
        ("head_timeout", 0),
        ("body_timeout", -1),
    ],
)
async def test_a_wrong_number_is_a_typed_error(field, value):
    """It names the field, what was wanted, and what was got, before anything is opened."""
    with pytest.raises(rb.ConfigError, match=field) as caught:
        async with rb.mcp.serve_sidecar(
            rb.mcp.Sidecar(command=["no-such-server"]), token=None, **{field: value}
        ):
            pass
    assert repr(value) in str(caught.value)
