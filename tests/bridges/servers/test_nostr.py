"""What a Nostr relay does on the wire, seen by a plain client."""

from __future__ import annotations

import time

import pytest

from tests.bridges.servers import nostr
from tests.bridges.servers.wire import wire


pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
async def relay(tmp_path_factory):
    """A Nostr relay."""
    async with nostr.running(tmp_path_factory.mktemp("nostr")) as server:
        yield server


async def test_nostr_since_includes_its_second_and_ends_with_eose(relay):
    """Stored events from `since` on, the one of that second included; EOSE; then live ones."""
    now = int(time.time())
    for number in range(3):
        await relay.publish(number, created_at=now - 10 + number)
    async with wire(relay.url) as client:
        await client.say(["REQ", "sub", {"kinds": [1], "since": now - 9}])
        *stored, end = await client.hear_until(lambda frame: frame[0] == "EOSE")
        assert end == ["EOSE", "sub"]
        assert sorted(event["content"] for _, _, event in stored) == ["1", "2"]
        await relay.publish(3)
        kind, name, event = await client.hear()
        assert (kind, name, event["content"]) == ("EVENT", "sub", "3")


async def test_nostr_answers_a_repeat_with_false_because_it_has_the_event(relay):
    """`OK true`, then `OK false "duplicate: …"`, after a restart as well; stored once."""
    event = nostr.signed_event("once")
    async with wire(relay.url) as client:
        for is_new in (True, False):
            await client.say(["EVENT", event])
            *answer, reason = await client.hear()
            assert answer == ["OK", event["id"], is_new]
            assert reason.startswith("duplicate:") is not is_new
    relay.kill()
    assert relay.processes() == []
    await relay.start()
    async with wire(relay.url) as client:
        await client.say(["EVENT", event])
        assert (await client.hear())[2:][0] is False
    assert (await relay.ledger()).count("once") == 1


async def test_nostr_checks_signatures_and_ignores_garbage(relay):
    """`OK false "invalid: …"` without the id, seconds later, for a changed text; no answer to what is no message."""
    event = nostr.signed_event("written") | {"content": "changed"}
    async with wire(relay.url) as client:
        await client.say("garbage")
        await client.say(["EVENT", event])
        *answer, reason = await client.hear()
        assert answer == ["OK", "", False]
        assert reason.startswith("invalid:")
    assert "changed" not in await relay.ledger()
