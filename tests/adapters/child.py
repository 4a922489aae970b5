"""A child that speaks JSON-RPC over its pipes and misbehaves as it is told: each method is one way to go wrong.

`--ignore-term` and `--ignore-eof` make it hard to end. It uses nothing but the standard library, and starts in milliseconds.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time


OUT, ERR = 1, 2
unsolicited: list[
    object
] = []  # what came without an id of ours to answer: notifications, and answers to `ask`


def write(data: bytes, fd: int = OUT) -> None:
    """Write all of it, however slowly it is read."""
    while data:
        data = data[os.write(fd, data) :]


def say(message: dict[str, object]) -> None:
    """One object, one line."""
    write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def sleep() -> None:
    """Live on, and neither read nor write."""
    while True:
        time.sleep(60)


def leave(params: dict[str, object]) -> None:
    """End with `code` or by `signal`, after writing `stderr`."""
    write(str(params.get("stderr", "")).encode(), ERR)
    if "signal" in params:
        signal.signal(int(params["signal"]), signal.SIG_DFL)
        os.kill(os.getpid(), int(params["signal"]))
        sleep()
    os._exit(int(params["code"]))


def shut(params: dict[str, object]) -> None:
    """Close one of its own pipes and live on."""
    os.close(int(params["fd"]))
    sleep()


def spawn(params: dict[str, object]) -> int:
    """Start a grandchild that holds the pipes, or not, and never ends by itself; `ignore_term`: not by SIGTERM either."""
    import subprocess  # most children need none, and start faster without

    pipes = None if params.get("pipes") else subprocess.DEVNULL
    ignore = "signal.signal(signal.SIGTERM, signal.SIG_IGN); " if params.get("ignore_term") else ""
    code = f"import os, signal, time; {ignore}os.write({{fd}}, b'.'); time.sleep(600)"
    ready, reported = os.pipe()
    grandchild = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code.format(fd=reported)],
        stdin=pipes,
        stdout=pipes,
        stderr=pipes,
        pass_fds=[reported],
    )
    os.read(ready, 1)
    return grandchild.pid


def flood(params: dict[str, object]) -> int:
    """Send `count` notifications of `size` bytes, without reading in between."""
    for number in range(int(params["count"])):
        say(
            {
                "method": "flood",
                "params": {"number": number, "filler": "x" * int(params.get("size", 1))},
            }
        )
    return int(params["count"])


def raw(params: dict[str, object]) -> None:
    """Write `hex` to stdout as it is, or to stderr with `fd` 2."""
    write(bytes.fromhex(str(params["hex"])), int(params.get("fd", OUT)))


def handle(asked: dict[str, object]) -> None:
    """Do as told; what returns something other than None is answered with it."""
    method, number = asked.get("method"), asked.get("id")
    params = asked.get("params") or {}
    assert isinstance(params, dict)
    actions = {"leave": leave, "shut": shut, "spawn": spawn, "flood": flood, "raw": raw}
    if method in actions:
        result = actions[str(method)](params)
        if result is not None or params.get("then_answer"):
            say({"id": number, "result": result})
    elif method == "echo":
        say({"id": number, "result": params})
    elif method == "length":
        say({"id": number, "result": len(str(params["text"]))})
    elif method == "unasked":
        say({"id": number, "result": unsolicited})
    elif method == "say":
        say(params["message"])
    elif method == "answer":  # any object, under the id of the question
        say({"id": number, **params})
    elif method == "deaf":
        say({"id": number, "result": True})
        sleep()
    elif method != "silence":
        unsolicited.append(asked)


def main() -> None:
    """Read until the end of stdin, or for ever."""
    if "--ignore-term" in sys.argv:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin.buffer:
        handle(json.loads(line))
    if "--ignore-eof" in sys.argv:
        sleep()


main()
