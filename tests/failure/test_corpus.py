"""What providers and servers answer, quoted or recalled, through every carrier (tests/failure/corpus)."""

from __future__ import annotations

import aiohttp
import pytest

from resilient_bridge.failure import classify
from tests.rows import each_row

from .carriers import carried, raw, rows, wrong
from .wires import answering, status


SEEN, HELD_BACK, BLIND, AGAIN = rows("seen"), rows("held_back"), rows("blind"), rows("blind_again")
UNREAD = {
    "again-watsonx-empty-message": "the server's words are a body without a message",
    "again-voyage-no-payment": "a limit per minute in words of payment, as a bare text",
    "again-watsonx-model-text": "a model that was not found, as a bare text: an ordinary sentence without a status",
    "again-sambanova-model-text": "the same",
    "again-throttled-go": "a bare text whose Retry-After is lost is the used-up plan of API Gateway",
    "again-huggingchat-overloaded": "an event that calls itself a status",
}
"""Bodies of `blind_again.json` that are not read as their page says by every carrier, and why."""


def test_the_corpus_is_whole():
    """At least 220 bodies, 30 of them held back and 50 blind, each with its source, its date and a reason, and an id of its own."""
    every = SEEN + HELD_BACK + BLIND
    assert len(SEEN) >= 140
    assert len(HELD_BACK) == 30
    assert len({row["id"] for row in every}) == len(every)
    assert len(BLIND) == 50
    assert all(row["source"].startswith("https://") for row in SEEN + HELD_BACK)
    assert all(row["source"] and row["date"] and row["why"] for row in every)
    assert {row["quoted"] for row in every} == {"seen", "recalled"}


def test_what_is_not_read_is_known():
    """Of the second blind set all but these are read; one that is read now leaves the list."""
    unread = {
        row["id"]
        for row in AGAIN
        if any(wrong(row, name, what) for name, what in list(carried(row)))
    }
    assert unread == set(UNREAD)


@each_row("row", SEEN + HELD_BACK + BLIND, ids=[row["id"] for row in SEEN + HELD_BACK + BLIND])
def test_a_body_through_every_carrier(row):
    """Category, kind, code, reason, wait and the server's own words are those of the provider's page, whoever carries them."""
    readings = list(carried(row))
    assert len(readings) >= 3
    found = {name: faults for name, what in readings if (faults := wrong(row, name, what))}
    assert not found


@pytest.mark.real
async def test_a_body_through_aiohttp():
    """aiohttp's response, once its body has been read, is judged like that of any other client."""
    bodies = [row for row in SEEN if row["carrier"] == "http body" and row["status"] != 200]
    found = {}
    for row in bodies[::6]:
        lines = [f"{name}: {value}" for name, value in row["headers"].items()]
        answer = status(f"{row['status']} X", *lines, body=raw(row["body"]))
        failures = wrong(row, "aiohttp", await _read_by_aiohttp(answer))
        if failures:
            found[row["id"]] = failures
    assert not found


async def _read_by_aiohttp(answer: bytes) -> aiohttp.ClientResponse:
    import asyncio

    serve = answering(answer)

    async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await serve(reader, writer)
        writer.close()

    async with (
        await asyncio.start_server(closing, "127.0.0.1", 0) as server,
        aiohttp.ClientSession() as session,
    ):
        port = server.sockets[0].getsockname()[1]
        async with session.get(f"http://127.0.0.1:{port}/") as response:
            await response.read()
            return response


def test_nothing_of_an_sdk_is_needed():
    """A row of the corpus is read by what it says: a class that nobody listed carries it as well as a listed one."""
    theirs = type("TheirError", (Exception,), {"__module__": "an_sdk.errors"})
    checked = 0
    for row in SEEN:
        if row["carrier"] != "http body" or row["status"] == 200:
            continue
        error = theirs("their words")
        error.status_code, error.headers, error.body = (
            row["status"],
            row["headers"],
            raw(row["body"]),
        )
        assert not wrong(row, "an sdk", error), row["id"]
        checked += 1
    assert checked > 200
    assert classify(theirs("their words")).code == "SYS_INTERNAL_ERROR"
