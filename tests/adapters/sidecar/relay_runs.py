"""What the clients of a seeded run ask, what is broken in it, and what must hold when it is over. `run(seed)` is one run."""

from __future__ import annotations

from typing import Any

from tests.adapters.sidecar.harness import DIED, MODERN
from tests.adapters.sidecar.relay_world import (
    ACTIVE,
    IDS,
    REQUESTS,
    REST,
    Asked,
    BrokenError,
    Person,
    Run,
    World,
)
from tests.internals.adapters import key_of, message


def run(seed: int) -> Run:
    """Do one run. Raises BrokenError for what does not hold."""
    world = World(seed)
    try:
        _play(world)
        _judge(world)
    except BrokenError as error:
        raise BrokenError(f"seed {seed}: {error}") from None
    world.run.effects = sum(asked.effects for asked in world.all)
    return world.run


def _play(world: World) -> None:
    rng = world.rng
    for number in range(3 if world.is_shared else 1):
        person = Person(world, number)
        world.people.append(person)
        world.relay.connect(person)
        if not world.is_modern:
            _open(world, person)
    for _ in range(rng.choice([10, 40])):
        world.after(rng.uniform(0, ACTIVE), lambda: _ask(world))
    for _ in range(rng.choice([0, 2, 6])):
        world.after(rng.uniform(0, ACTIVE), lambda: _break(world))
    if world.is_shared and rng.random() < 0.3:
        world.after(rng.uniform(0, ACTIVE), lambda: _leave(world, world.people[0]))
    world.go(world.now + ACTIVE)
    world.faults = world.is_down = False
    world.go(world.now + REST)
    _call_once_more(world)


def _call_once_more(world: World) -> None:
    """The server is well again, so whoever has a session can use it."""
    is_open = world.is_modern or world.relay._state.started is not None
    before = len(world.all)
    for person in world.people:
        if person.is_there and is_open:
            _request(world, person, 1, "order")
            world.go(world.now + REST)
    for asked in world.all[before:]:
        if asked.reported != "answered":
            raise BrokenError(f"the server is well, and a call ends as {asked.reported}")


def _open(world: World, person: Person) -> None:
    params = {"protocolVersion": "2025-06-18", "capabilities": {"sampling": {}}}
    world.from_client(person, message.request("init", "initialize", params))
    world.from_client(person, message.notification("notifications/initialized"))


def _ask(world: World) -> None:
    """A client asks for one thing, or several at once; or takes something back."""
    rng = world.rng
    person = rng.choice(world.people)
    if not person.is_there:
        return
    for _ in range(rng.choice([1, 1, 1, 4])):
        if person.open and rng.random() < 0.15:
            asked = rng.choice(list(person.open.values()))
            world.from_client(
                person, message.notification("notifications/cancelled", {"requestId": asked.id})
            )
            continue
        free = [one for one in IDS if key_of(one) not in person.open]
        if free:
            _request(world, person, rng.choice(free), rng.choice(REQUESTS))
    if rng.random() < 0.1:
        world.from_client(person, message.notification("notifications/vendor"))


def _request(world: World, person: Person, id: Any, kind: str) -> None:
    asked = Asked(person, id, kind, len(world.all))
    world.all.append(asked)
    key = key_of(id)
    assert key is not None
    person.open[key] = asked
    meta: dict[str, Any] = dict(MODERN) if world.is_modern else {}
    if world.rng.random() < 0.5:
        meta["progressToken"] = id
    params: dict[str, Any] = {"_meta": meta} if meta else {}
    methods = {"read": "resources/read", "list": "tools/list", "vendor": "vendor/thing"}
    if asked.is_call:
        params |= {"name": kind, "arguments": {"marker": asked.marker}}
    else:
        params |= {"marker": asked.marker}
    world.from_client(person, message.request(id, methods.get(kind, "tools/call"), params))


def _break(world: World) -> None:
    """The server ends, or is away for a while, with or without its sessions."""
    rng = world.rng
    world.version += rng.random() < 0.5
    if not world.is_url:
        for session in list(world.alive):
            world.end(session, DIED)
        return
    if rng.random() < 0.6:
        world.alive.clear()  # it forgets its sessions
        if world.is_modern:
            return
    if rng.random() < 0.6:
        world.is_down = True
        world.after(rng.choice([0.5, 5, 60]), lambda: setattr(world, "is_down", False))


def _leave(world: World, person: Person) -> None:
    person.is_there = False
    person.open.clear()
    for asked in world.all:
        if asked.person is person and asked.reported is None:
            asked.reported = "cancelled"
    person.drop = lambda key: None  # type: ignore[method-assign]
    world.tell(world.relay.disconnect, person)


def _judge(world: World) -> None:
    """Everything has come to rest: each call has ended in one way that is true, and nothing is left of it."""
    for asked in world.all:
        if asked.reported is None:
            raise BrokenError(f"{asked.kind} has no end")
        repeatable = asked.kind in ("look", "put", "named", "read", "list")
        if asked.effects > 1 and not repeatable:
            raise BrokenError(f"{asked.kind} ran {asked.effects} times")
        if asked.reported == "not_executed" and asked.effects:
            raise BrokenError(f"{asked.kind} ran, and is told as not executed")
    opened = 0 if world.is_modern else len(world.people)
    if world.finished != len(world.all) + opened:
        raise BrokenError(
            f"{len(world.all)} requests and {opened} openings, {world.finished} records"
        )
    if not world.is_modern and world.news != world.news_due:
        raise BrokenError(f"{world.news_due} changes of the list of tools, {world.news} told")
    state, calls = world.relay._state, world.relay._calls
    remaining = {
        "waiting": len(state.waiting),
        "held": len(state.held),
        "under way": sum(len(session.pending) for session in state.sessions.values()),
        "sessions": max(0, len(state.sessions) - 1),
        "places": sum(calls._limits._running.values()),
        "requests": sum(len(client.calls) for client in state.clients.values()),
    }
    if any(remaining.values()):
        raise BrokenError(f"left behind: {remaining}")
