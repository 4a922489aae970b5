"""Damages a copy of the known database, opens it, and says what is wrong with the answer.

Rule: there are two right answers. Either everything is as it was, and nothing is said; or one event says what was lost, the original is
beside the new file, and nothing that is left is wrong, in either of two openings.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from resilient_bridge.protocol import EntryState
from tests.stores.database_content import (
    ANSWERS,
    MARKED,
    RECORD,
    SENDS,
    SESSION,
    SETTLED,
    SIDES,
    entry,
    key_of,
    look,
    marks_of,
    outcome,
    stamp_of,
    text_of,
)


ROOM = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
RECORDS = {"older": {'{"checkpoint": 1}'}, SESSION: {'{"checkpoint": 3}', RECORD}}


class Damaged(NamedTuple):
    """The files of a damaged database: side -> bytes; None for one that is not there."""

    name: str
    files: dict[str, bytes | None]


class Answer(NamedTuple):
    """What one opening said, `wrong` with it, and how much of it there was."""

    is_silent: bool
    wrong: list[str]
    share: float
    lost: str


def flipped(files, side, write_out, bit):
    """The files with one bit of one of them turned over."""
    data = bytearray(files[side])
    data[write_out] ^= 1 << bit
    return Damaged(
        f"bit {bit} of byte {write_out} of the {side[1:] or 'file'}", {**files, side: bytes(data)}
    )


def cut(files, side, size):
    """The files with one of them cut off."""
    return Damaged(
        f"the {side[1:] or 'file'} cut to {size} bytes", {**files, side: files[side][:size]}
    )


def files_of(path):
    return {
        side: Path(f"{path}{side}").read_bytes() if Path(f"{path}{side}").exists() else None
        for side in SIDES
    }


def write_out(damaged, directory):
    """Write the files; where the database is."""
    path = directory / "known.db"
    for side, data in damaged.files.items():
        if data is not None:
            Path(f"{path}{side}").write_bytes(data)
    return path


async def answer(damaged, truth, directory, *, is_prefix_right=False):
    """Open it twice. `is_prefix_right`: an older state is no loss, because nobody can tell."""
    path = write_out(damaged, directory)
    content, events = await look(path)
    again, later = await look(path)
    wrong = wrong_rows(content, is_late=not is_prefix_right)
    if content == truth and not events:
        pass
    elif not events and not is_prefix_right:
        wrong.append(f"something is gone in silence: {difference(content, truth)}")
    elif len(events) > 1:
        wrong.append(f"{len(events)} events")
    if events:
        wrong += wrong_event(events[0], damaged, content)
    if later:
        wrong.append(f"the second opening was not silent: {later[0].lost}")
    if again != content:
        wrong.append(f"the second opening differs: {difference(again, content)}")
    share = (len(content.entries) + len(content.tail)) / (len(truth.entries) + len(truth.tail))
    return Answer(not events, wrong, share, events[0].lost if events else "")


def difference(one, other):
    return [name for name in one._fields if getattr(one, name) != getattr(other, name)]


def wrong_rows(content, *, is_late=True):
    """What was never so: whatever remains has to be true. `is_late`: the marks had been made."""
    wrong = []
    for seq, (*row, state, _) in content.entries.items():
        true = entry(seq)
        if not 1 <= seq <= SENDS or row != [true.id, true.key, true.type, true.frame]:
            wrong.append(f"send {seq} was never accepted: {row}")
        if is_late and state is EntryState.QUEUED and seq <= MARKED:
            wrong.append(f"send {seq} was marked, and is shown as never handed out")
    wrong += [
        f"outcome {seq}: {row}"
        for seq, row in content.outcomes.items()
        if seq not in SETTLED or row != outcome(seq)
    ]
    if content.taken > 100:
        wrong.append(f"the position is ahead: {content.taken}")
    wrong += [
        f"message {n}: {mark}"
        for n, mark in marks_of(content).items()
        if mark != (key_of(n), text_of(n), stamp_of(n))
    ]
    wrong += [
        f"record {name}"
        for name, text in content.records.items()
        if text not in RECORDS.get(name, ())
    ]
    if not content.answers <= set(range(1, ANSWERS + 1)):
        wrong.append(f"answers {sorted(content.answers)}")
    return wrong


def wrong_event(event, damaged, content):
    """Does the event say what is gone, and is the original where it says?"""
    wrong = []
    aside = Path(event.set_aside)
    if not aside.exists():
        return [f"nothing was set aside as {aside.name}"]
    for side, data in damaged.files.items():
        saved = Path(f"{aside}{side}")
        if data and (not saved.exists() or saved.read_bytes() != data):
            wrong.append(f"the {side[1:] or 'file'} that was set aside is not what it was")
    if not event.lost or event.failure.code != "SYS_STATE_DAMAGED":
        wrong.append(f"the event says {event.lost!r}, {event.failure.code}")
    everything = set(range(1, SENDS + 1)) - SETTLED
    for table, is_less in (
        ("outbox", not everything <= content.entries.keys()),
        ("outcomes", len(content.outcomes) < len(SETTLED)),
        ("tail", content.taken < 100 or len(content.tail) < 100),
        ("answers", len(content.answers) < ANSWERS),
        ("records", content.records != {"older": '{"checkpoint": 1}', SESSION: RECORD}),
    ):
        if is_less and not any(word in event.lost for word in (table, "log", "everything")):
            wrong.append(f"{table} are fewer, and the event says {event.lost!r}")
    return wrong


async def sweep(cases, truth, **options):
    """All wrong answers, by name; and how many were silent, how many were mended, and what was left of those on average."""
    found, counts, shares = [], Counter(), []
    for damaged in cases:
        directory = Path(tempfile.mkdtemp(prefix="damage-", dir=ROOM))
        try:
            answered = await answer(damaged, truth, directory, **options)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 -- any is a finding
            found.append(f"{damaged.name}: {type(error).__name__}: {error}")
            continue
        finally:
            shutil.rmtree(directory)
        counts["silent" if answered.is_silent else "mended"] += 1
        if not answered.is_silent:
            shares.append(answered.share)
        found += [f"{damaged.name}: {one} (lost: {answered.lost})" for one in answered.wrong]
    counts["wrong"] = len(found)
    counts["kept %"] = round(100 * sum(shares) / len(shares)) if shares else 0
    return found, counts
