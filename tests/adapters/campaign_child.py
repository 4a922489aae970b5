"""A child that speaks JSON-RPC, writes down what it saw and what it did, and dies or misbehaves when a request tells it to.

Rule: a request's `fault` is for the first `times` arrivals of its key, over all lives; a repeat finds a sound child after that.
The ledger gets `saw KEY` before anything is decided, `met FAULT`, and `ran KEY` for an effect, one write each. A file
`LEDGER.crash` ends the next start.
"""

from __future__ import annotations

import json
import os
import sys
import time


NOISE = [
    b"ready\n",
    b"\xff\xfe\n",
    b'{"level":"info"}\n',
    b"\n",
    b'{"jsonrpc":"2.0","id":1,"resu\n',
]
BUSY = {"code": -32000, "message": "busy", "data": {"type": "TRANSPORT", "retryable": True}}


def write(data: bytes, fd: int = 1) -> None:
    """Write all of it, however slowly it is read."""
    while data:
        data = data[os.write(fd, data) :]


def note(what: str, key: object) -> None:
    """Write it down."""
    write(f"{what} {key}\n".encode(), LEDGER)


def times_seen(key: str) -> int:
    """How often a key arrived, this time included."""
    with open(sys.argv[1]) as ledger:  # noqa: PTH123 -- pathlib is slow to load
        return ledger.read().count(f"saw {key}\n")


def answered(asked: dict[str, object], **fields: object) -> bytes:
    """The line that answers."""
    return json.dumps({"jsonrpc": "2.0", "id": asked["id"], **fields}).encode() + b"\n"


def handle(
    asked: dict[str, object], *, key: str, fault: str = "", times: int = 1, **_: object
) -> None:
    """Do it, or what goes wrong with it."""
    note("saw", key)
    if fault and times_seen(key) > times:
        fault = ""
    if fault:
        note("met", fault)
    if fault == "dies before":
        os._exit(9)
    if fault == "deaf":
        note("deaf", os.getpid())
        time.sleep(600)
    if fault == "busy":
        write(answered(asked, error=BUSY))
        return
    note("ran", key)
    if fault == "dies after":
        os._exit(9)
    if fault == "half a line":
        line = answered(asked, result=key)
        write(line[: len(line) // 2])
        os._exit(9)
    if fault == "noise":
        write(b"".join(NOISE))
    write(answered(asked, result=key))


LEDGER = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
try:
    os.unlink(f"{sys.argv[1]}.crash")  # noqa: PTH108
except FileNotFoundError:
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        handle(asked, **asked["params"])
else:
    note("met", "crash at start")
    os._exit(7)
