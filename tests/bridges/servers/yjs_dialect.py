"""A dialect for Yjs over y-websocket, as a user would write one: a binary protocol, over the public names of `rb.dialects`.

A document is asked for by a state vector (sync step 1) and answered by an update with what is missing (step 2); the server asks the same of
us. Rule: the writer whose client id is above `WRITER` is the log: its id is the epoch, its clocks are contiguous numbers. Step 2 answers
in order, so that it is the pong of a step 1. An update of ours comes back when it has been applied: that is its acknowledgement.
"""

from __future__ import annotations

from typing import Any

import resilient_bridge as rb


d = rb.dialects
WRITER = 2**30
SYNC, AWARENESS = 0, 1
STEP_1, STEP_2, UPDATE = 0, 1, 2


# ---- lib0's encoding ------------------------------------------------------------------------------------------------


class Reader:
    """Reads lib0's variable numbers, byte strings and values; ValueError for what is cut short."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def byte(self) -> int:
        """The next byte."""
        if self._at >= len(self._data):
            raise ValueError("the message ends too early")
        self._at += 1
        return self._data[self._at - 1]

    def number(self) -> int:
        """An unsigned number, seven bits a byte."""
        value = shift = 0
        while (byte := self.byte()) > 127:
            value |= (byte & 127) << shift
            shift += 7
            if shift > 56:  # JavaScript's numbers have 53 bits
                raise ValueError("a number of more than 64 bits")
        return value | byte << shift

    def bytes(self) -> bytes:
        """A byte string behind its length."""
        size = self.number()
        if size > len(self._data) - self._at:
            raise ValueError("the message ends too early")
        self._at += size
        return self._data[self._at - size : self._at]

    def text(self) -> str:
        """A byte string in UTF-8."""
        return self.bytes().decode()

    def value(self) -> Any:
        """A value of a map: None, bool, a whole number, text or bytes."""
        match self.byte():
            case 127 | 126:
                return None
            case 125:
                first = self.byte()
                value, shift = first & 63, 6
                while first > 127:
                    first = self.byte()
                    value |= (first & 127) << shift
                    shift += 7
                return value
            case 121:
                return False
            case 120:
                return True
            case 119:
                return self.text()
            case 116:
                return self.bytes()
            case kind:
                raise ValueError(f"a value of kind {kind}")


def number(value: int) -> bytes:
    """An unsigned number, seven bits a byte."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))


def sized(data: bytes) -> bytes:
    """A byte string behind its length."""
    return number(len(data)) + data


# ---- updates ----------------------------------------------------------------------------------------------------------


def set_key(client: int, name: str, key: str, text: str) -> bytes:
    """The update that sets a new key of a map to a text, by a client id that is used for this alone."""
    item = bytes((8 | 32,)) + number(1) + sized(name.encode()) + sized(key.encode())
    return (
        number(1)
        + number(1)
        + number(client)
        + number(0)
        + item
        + number(1)
        + b"\x77"
        + sized(text.encode())
        + number(0)
    )


def items_of(update: bytes) -> list[tuple[int, int, str, Any]]:
    """Client id, clock, key and value of each item of a map in an update; what is no such item counts with its length."""
    read, found = Reader(update), []
    for _ in range(read.number()):
        count, client, clock = read.number(), read.number(), read.number()
        for _ in range(count):
            length, key, values = _struct(read)
            found += [(client, clock, key, value) for value in values]
            clock += length
    return found


def _struct(read: Reader) -> tuple[int, str, list[Any]]:
    info, key = read.byte(), ""
    kind = info & 31
    if kind in {0, 10}:  # collected, or skipped
        return read.number(), "", []
    for bit in (128, 64):
        if info & bit:
            read.number(), read.number()
    if not info & 192:
        if read.number():
            read.text()
        else:
            read.number(), read.number()
        key = read.text() if info & 32 else ""
    if kind == 1:
        return read.number(), "", []
    if kind == 8:
        values = [read.value() for _ in range(read.number())]
        return len(values), key, values
    raise ValueError(f"an item of kind {kind}")


# ---- the dialect ------------------------------------------------------------------------------------------------------


class _Document:
    """The functions of one client's dialect, and whether the next step 2 answers the question of the join."""

    def __init__(self) -> None:
        self.is_asked = False

    def resume(self, record: Any) -> Any:
        """What is missing after the position; all of it at first."""
        self.is_asked = True
        return d.Resume(frames=(_step_1(record),))

    def decode(self, frame: str | bytes) -> tuple[Any, ...]:
        """Facts of a binary frame; there are no others."""
        if isinstance(frame, str):
            raise TypeError("expected bytes, got text")
        read = Reader(frame)
        kind = read.number()
        if kind == AWARENESS:
            return (d.Received(raw=frame, type="awareness"),)
        if kind != SYNC:
            raise ValueError(f"a message of kind {kind}")
        step = read.number()
        body = read.bytes()
        if step == STEP_1:
            return _vector(body)
        return (*_facts(body), *(self._end() if step == STEP_2 else ()))

    def _end(self) -> tuple[Any, ...]:
        was_asked, self.is_asked = self.is_asked, False
        return (d.Replayed(complete=True),) if was_asked else (d.Pong(),)

    def encode(self, intent: Any) -> bytes | None:
        """An update of the user's, a step 1 as a ping, and a step 2 without anything as the answer to the server's."""
        match intent:
            case d.Send() if intent.body is not None:
                return bytes((SYNC, UPDATE)) + sized(intent.body)
            case d.Ping():
                return _step_1(intent.record)
            case d.Pong():
                return bytes((SYNC, STEP_2)) + sized(b"\0\0")
        return None


def _vector(body: bytes) -> tuple[Any, ...]:
    read = Reader(body)
    clocks = {read.number(): read.number() for _ in range(read.number())}
    writer = max(clocks, default=0)
    if writer < WRITER:
        raise ValueError("a document without a writer")
    return d.Hello(epoch=str(writer)), d.Replayed(through=clocks[writer] - 1), d.Ping(body=body)


def _facts(update: bytes) -> list[Any]:
    facts: list[Any] = []
    for client, clock, key, value in items_of(update):
        if client < WRITER:
            facts.append(d.Acked(echo=str(client)))
        else:
            payload = {"key": key, "value": value}
            facts.append(d.Received(raw=update, type="set", payload=payload, position=clock))
    return facts


def _step_1(record: Any) -> bytes:
    vector = number(0)
    if record.position is not None and record.epoch is not None:
        vector = number(1) + number(int(record.epoch)) + number(record.position + 1)
    return bytes((SYNC, STEP_1)) + sized(vector)


def _client_of(frame: bytes) -> str:
    return str(items_of(Reader(frame[2:]).bytes())[0][0])


def yjs() -> rb.bridge.Dialect:
    """One document. `send("update", update)` sends an update, which a document applies once, however often it comes."""
    document = _Document()
    return rb.bridge.Dialect.envelopes(
        decode=document.decode,
        encode=document.encode,
        resume=document.resume,
        positions=d.Positions(contiguous=True, repeats=True, ends="stated"),
        waits_for_hello=True,
        pings="in_order",
        confirms=True,
        echo=_client_of,
        dedupes=True,
    )
