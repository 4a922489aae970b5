"""The sidecar as a program of its own, between a client and a server that others wrote; and what a test sees of it from outside.

Rule: nothing of the sidecar is imported. What happened is read from the client's side, from the disk, from the file of events and from /proc.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench._processes import processes, tree_of, until
from bench.mcp_features.raw_client import Http, Message, Pipes
from tests.peers.processes import is_running


PROGRAM = (sys.executable, "-m", "resilient_bridge", "mcp")
PREFIX = "io.github.resilient-bridge"


def stands_in_for(target: Sequence[str] | str, *options: str) -> tuple[str, ...]:
    """The command of a sidecar over stdio, for a server's command or URL."""
    return (
        (*PROGRAM, *options, target)
        if isinstance(target, str)
        else (*PROGRAM, *options, "--", *target)
    )


@contextmanager
def behind(target: Sequence[str] | str, *options: str, **how: Any) -> Iterator[Pipes]:
    """A raw client of a sidecar over stdio, initialized."""
    with Pipes(stands_in_for(target, *options)) as client:
        client.initialize(**how)
        yield client


@dataclass
class Listening:
    """A sidecar that listens."""

    url: str
    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)


@contextmanager
def listening(
    target: Sequence[str] | str, *options: str, token: bool = False
) -> Iterator[Listening]:
    """A sidecar over HTTP; without a token unless the test wants one."""
    guard = () if token else ("--no-token",)
    command = stands_in_for(target, "--http", "127.0.0.1:0", *guard, *options)
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    ) as process:
        lines: list[str] = []
        ready = threading.Event()

        def drain() -> None:
            assert process.stderr is not None
            for line in process.stderr:
                lines.append(line.rstrip("\n"))
                if "serving at" in line:
                    ready.set()
            ready.set()

        thread = threading.Thread(target=drain, daemon=True)
        thread.start()
        try:
            assert ready.wait(30), lines
            url = next(
                found[1] for line in lines if (found := re.search(r"serving at (\S+)", line))
            )
            yield Listening(url, process, lines)
        finally:
            process.terminate()
            thread.join(15)
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()


@contextmanager
def client_of(url: str, **how: Any) -> Iterator[Http]:
    """A raw client over HTTP, initialized."""
    with Http(url) as client:
        client.initialize(**how)
        yield client


def health_of(url: str) -> tuple[int, dict[str, Any]]:
    """What `/health` answers without a token: its status and its body."""
    address = urlsplit(url)
    assert address.hostname is not None
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=10)
    try:
        connection.request("GET", "/health")
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


# ---- servers at a URL --------------------------------------------------------------------------------------------------
@contextmanager
def deployed(command: Sequence[str], port: int, log: Path | None = None) -> Iterator[None]:
    """A server on a port, from when it answers there until it is killed; what it prints goes to a file, or to nobody."""
    with (
        Path(log or os.devnull).open("wb") as printed,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=printed, stderr=printed) as process,
    ):
        try:
            until(lambda: listens(port) or process.poll() is not None, 30, "the server listens")
            assert process.poll() is None, f"{command} ended with {process.returncode}"
            yield
        finally:
            process.kill()


def listens(port: int) -> bool:
    """Whether somebody answers HTTP on a port of this machine."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/nothing")
        connection.getresponse().read()
    except ConnectionError:
        return False
    finally:
        connection.close()
    return True


def is_refused(url: str) -> bool:
    """Whether a connection to this address is refused."""
    address = urlsplit(url)
    try:
        socket.create_connection((address.hostname, address.port or 80), 5).close()
    except ConnectionRefusedError:
        return True
    except OSError:  # reset, by one that is about to close
        return False
    return False


# ---- what a client was told --------------------------------------------------------------------------------------------
def text_of(answer: Message) -> str:
    """The text of a result or of an error."""
    if "error" in answer:
        return str(answer["error"]["message"])
    return "\n".join(str(item.get("text", "")) for item in answer["result"].get("content", ()))


def outcome_of(answer: Message) -> str:
    """How a request ended: "unknown" and "not_executed" in the sidecar's words, else "answered" or "failed" in the server's."""
    if "error" in answer:
        return str((answer["error"].get("data") or {}).get(f"{PREFIX}/outcome", "failed"))
    return outcome_in(
        answer["result"].get("_meta") or {}, text_of(answer), answer["result"].get("isError", False)
    )


def outcome_in(meta: dict[str, Any], text: str, is_error: bool) -> str:
    """The same of what a client printed; the words and the machine's form must agree."""
    by_meta = str(meta.get(f"{PREFIX}/outcome", ""))
    by_text = {"OUTCOME UNKNOWN:": "unknown", "NOT EXECUTED:": "not_executed"}
    words = next((outcome for words, outcome in by_text.items() if text.startswith(words)), "")
    assert by_meta == words, (meta, text)
    assert is_error or not by_meta, (meta, text)
    return by_meta or ("failed" if is_error else "answered")


def records(events: Path, event: str = "") -> list[dict[str, Any]]:
    """The records of a kind in the sidecar's file of events, or all."""
    found = [json.loads(line) for line in events.read_text().splitlines()]
    return [record for record in found if event in ("", record["event"])]


# ---- processes ---------------------------------------------------------------------------------------------------------
def zombies_of(pid: int) -> list[int]:
    """The children of a process that ended and that it has not waited for."""
    return [child for child, stat in processes().items() if stat == (pid, "Z")]


def kill_server(sidecar: int, number: int = signal.SIGKILL) -> int:
    """Kill what the sidecar started, and return how many processes that were. 0: it is being started."""
    killed = 0
    for pid in tree_of(sidecar):
        with suppress(ProcessLookupError):
            os.kill(pid, number)
            killed += 1
    return killed


def end_server(sidecar: int) -> None:
    """Kill what the sidecar started, and return when it is dead; the sidecar may not know it yet.

    One that is not quite dead takes bytes out of its pipe that it never looks at: that they did not run cannot be known.
    """
    tree = tree_of(sidecar)
    assert kill_server(sidecar)
    until(lambda: not any(map(is_running, tree)), 10, "its end")


def cpu_seconds(pid: int) -> float:
    """The CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
