"""A port that is taken: which one is read from any usual spelling, and all that is told of it was looked at."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

import resilient_bridge as rb
from resilient_bridge.agent.suggestions import port_owners as suggestion_ports
from resilient_bridge.agent.suggestions.port_owners import ports_in
from resilient_bridge.agent.suggestions.suggest import suggest


needs_table = pytest.mark.skipif(
    not Path("/proc/net/tcp").exists(), reason="the system has no table of sockets"
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        # python: asyncio, socket, an IPv6 address
        (
            "error while attempting to bind on address ('127.0.0.1', 8000): address already in use",
            {8000: {"127.0.0.1"}},
        ),
        ("[Errno 98] Address already in use: ('127.0.0.1', 42843)", {42843: {"127.0.0.1"}}),
        ("[Errno 98] Address already in use ('::1', 8099, 0, 0)", {8099: {"::1"}}),
        # node
        ("Error: listen EADDRINUSE: address already in use :::3000", {3000: {"::"}}),
        ("Error: listen EADDRINUSE :::3000", {3000: {"::"}}),
        ("listen EADDRINUSE: address already in use ::1:3000", {3000: {"::1"}}),
        ("listen EADDRINUSE: address already in use 127.0.0.1:3000", {3000: {"127.0.0.1"}}),
        ("Error: listen EADDRINUSE\n  code: 'EADDRINUSE',\n  port: 3000\n}", {3000: {""}}),
        # nginx, apache, go, docker, ssh, redis, java, ruby, php
        ("nginx: [emerg] bind() to 0.0.0.0:80 failed (98: Address already in use)", {80: {"0.0.0.0"}}),
        ("bind() to [::]:80 failed (98: Address already in use)", {80: {"::"}}),
        (
            "(98)Address already in use: AH00072: make_sock: could not bind to address [::1]:3000",
            {3000: {"::1"}},
        ),
        ("main.go:42: listen tcp :8080: bind: address already in use", {8080: {""}}),
        ("2024/01/02 12:30:45 listen tcp 127.0.0.1:80: bind: address already in use", {80: {"127.0.0.1"}}),
        (
            "failed to bind host port for 0.0.0.0:8080:172.17.0.2:80/tcp: address already in use",
            {8080: {"0.0.0.0"}},
        ),
        ("bind [127.0.0.1]:8080: Address already in use", {8080: {"127.0.0.1"}}),
        (
            "Could not create server TCP listening socket *:6379: bind: Address already in use",
            {6379: {"*"}},
        ),
        ("java.net.BindException: Address already in use: /127.0.0.1:8080", {8080: {"127.0.0.1"}}),
        (
            'Address already in use - bind(2) for "127.0.0.1" port 3000 (Errno::EADDRINUSE)',
            {3000: {"127.0.0.1"}},
        ),
        ("Failed to listen on localhost:8000 (reason: Address already in use)", {8000: {"localhost"}}),
        # the line beside it
        ("Address already in use\nPort 5000 is in use by another program.", {5000: {""}}),
        (
            'could not bind IPv4 address "127.0.0.1": Address already in use\nis another one already running on port 5432?',
            {5432: {""}},
        ),
        # several, each certain
        (
            "\n".join(
                f"bind() to {address} failed (98: Address already in use)"
                for address in ("0.0.0.0:80", "[::]:80", "0.0.0.0:443")
            ),
            {80: {"0.0.0.0", "::"}, 443: {"0.0.0.0"}},
        ),
        # no port is certain
        ("[Errno 98] Address already in use", {}),
        ("Address already in use (os error 98)", {}),
        ("(98)Address already in use: make_sock", {}),
        ("bound 127.0.0.1:8000, then 127.0.0.1:8001: address already in use", {}),
        ("server.py:42: address already in use", {}),
        ("metrics on port 9000\nAddress already in use", {}),
        ("bind 127.0.0.1:99999: Address already in use", {}),
        ("bind() to unix:/run/x.sock failed (98: Address already in use)", {}),
        ("connection to 127.0.0.1:8000 refused", {}),
    ],
)
@pytest.mark.requirement("G8")
def test_which_port_it_was(text, found):
    """Host and port as each program writes them; none where the text leaves a doubt."""
    assert ports_in(text.splitlines()) == found


@pytest.fixture
def listener():
    """A socket that listens on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def _first(text, **options):
    return suggest(RuntimeError(text), **options)[0]


@needs_table
@pytest.mark.real
@pytest.mark.requirement("G8")
@pytest.mark.parametrize(
    "text",
    [
        "[Errno 98] Address already in use: ('127.0.0.1', {})",
        "listen EADDRINUSE: address already in use :::{}",
        "bind() to 0.0.0.0:{} failed (98: Address already in use)",
        "listen on localhost:{}: Address already in use",
    ],
)
def test_a_port_is_looked_up(listener, text):
    """Whether anything listens on it is asked of the system, and where it does; not guessed."""
    port = listener.getsockname()[1]
    error = text.format(port)
    assert _first(error).startswith(f"port {port} is still taken, at 127.0.0.1:{port}: ")
    listener.close()
    assert _first(error) == f"nothing listens on port {port} any more: repeat the call"


@needs_table
@pytest.mark.real
async def test_the_error_of_a_real_server(listener):
    """What asyncio raises itself; and a port that only the arguments know."""
    port = listener.getsockname()[1]
    with pytest.raises(OSError, match="in use") as caught:
        await asyncio.start_server(print, "127.0.0.1", port)
    assert suggest(caught.value)[0].startswith(f"port {port} is still taken")
    bare = OSError(98, "Address already in use")
    assert suggest(bare, arguments={"port": port})[0].startswith(f"port {port} is still taken")
    assert suggest(bare) == rb.classify(bare).suggestions
    for port in (0, True, "x", 70_000, -1, None):
        assert suggest(bare, arguments={"port": port}) == rb.classify(bare).suggestions


@needs_table
@pytest.mark.real
def test_another_address_is_no_reason(listener):
    """What listens on another address of the machine is not in the way; nor is a file that is a socket a port."""
    port = listener.getsockname()[1]
    assert _first(f"bind 127.0.0.2:{port}: Address already in use").startswith("nothing listens")
    assert _first(f"bind [::1]:{port}: Address already in use").startswith("nothing listens")
    at_file = "bind() to unix:/run/x.sock failed (98: Address already in use)"
    assert "listens" not in " ".join(suggest(RuntimeError(at_file), arguments={"port": 9}))


@needs_table
@pytest.mark.real
def test_a_port_that_is_held_without_a_listener(monkeypatch):
    """Connections that outlive their server have it still; of the other protocol nothing is told that was not said."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        accepted, _ = server.accept()
    with client, accepted:
        hints = _first(f"bind 127.0.0.1:{port}: Address already in use")
        assert hints.startswith(f"nothing listens on port {port} any more, but connections still have it")
    with socket.socket() as held, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        held.bind(("", 0))  # so that no connection of another program has that number
        port = held.getsockname()[1]
        datagrams.bind(("127.0.0.1", port))
        hints = suggest(RuntimeError(f"bind 127.0.0.1:{port}: Address already in use"))
        assert not [line for line in hints if str(port) in line]
        text = f"listen udp 127.0.0.1:{port}: bind: address already in use"
        assert _first(text).startswith(f"port {port} is still taken")
        monkeypatch.setattr(suggestion_ports, "_holders", lambda port, kind: None)
        assert not [line for line in suggest(RuntimeError(text)) if str(port) in line]


@needs_table
@pytest.mark.real
def test_only_a_program_that_is_there_is_named(listener, tmp_path, monkeypatch):
    """The first of ss, lsof and fuser; with none of them no command, in the general hints neither."""
    port = listener.getsockname()[1]
    error = OSError(98, f"Address already in use: ('127.0.0.1', {port})")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not [line for line in suggest(error) if "`" in line]
    for program in ("fuser", "lsof", "ss"):
        (tmp_path / program).touch(0o755)
        (tmp_path / program).chmod(0o755)
        found = suggest(error)
        assert f"see who holds it with `{program} " in found[0]
    assert "see who holds it: `lsof -i :<port>`; end a stale process, then repeat" in found
    (tmp_path / "lsof").unlink()
    assert "see who holds it; end a stale process, then repeat" in suggest(error)


@needs_table
@pytest.mark.real
@pytest.mark.skipif(shutil.which("ss") is None, reason="there is no ss to be asked")
def test_the_command_that_is_named_shows_the_holder(listener):
    """Typed as it stands, it shows the process."""
    port = listener.getsockname()[1]
    line = _first(f"bind 127.0.0.1:{port}: Address already in use").split("`")[1]
    shown = subprocess.run(line, shell=True, capture_output=True, text=True, check=True).stdout
    assert f"pid={os.getpid()}" in shown
