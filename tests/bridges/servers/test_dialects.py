"""The real client in each dialect against the real server of it, with real faults: cuts, silence, refusals, SIGKILL and restarts.

Rule: what arrives is in order and once, with a gap in the place of whatever does not; no message has two effects, and a confirmed one has
its effect; RECOVERED where the server held everything (kinds.py says when). A sample runs always, fifty runs with `nox -s servers`.
"""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import AsyncExitStack

import pytest

import resilient_bridge as rb
from tests.bridges.servers.judging import Heard, order_problems, send_problems
from tests.bridges.servers.kinds import KINDS, SERVERS, SocketIo
from tests.bridges.servers.runs import Run, campaign


FIFTY = range(100, 150)
SAMPLE = {  # seeds of short runs: seed 3 kills its server, the others do not restart it
    "socketio": (3, 5, 8),
    "python_socketio": (3, 8),
    "graphql_ws": (3, 8),
    "yjs": (3, 5, 8),
    "agno": (3, 8, 11),
    "jupyter": (2, 5, 8),
    "nostr": (3, 5, 8),
    "openhands": (5, 8, 11),
    "openhands_legacy": (5, 8, 11),
}


@pytest.fixture(scope="module")
async def running(tmp_path_factory):
    """`await running(name)`: the server of that name. It serves until another one is wanted."""
    open_ones = {}
    async with AsyncExitStack() as stack:

        async def of(name):
            if name not in open_ones:
                open_ones.clear()
                await stack.aclose()
                open_ones[name] = await stack.enter_async_context(
                    SERVERS[name](tmp_path_factory.mktemp(name))
                )
            return open_ones[name]

        yield of


@pytest.mark.real
@pytest.mark.parametrize("name", KINDS)
async def test_a_sample_of_runs(running, name):
    """Two or three runs on one server."""
    seen = await campaign(
        KINDS[name], await running(KINDS[name].server), SAMPLE[name], sys.stderr.write
    )
    assert seen.problems == []
    assert seen.delivered >= seen.runs * 8
    assert seen.losses >= seen.runs * 2


@pytest.mark.real
@pytest.mark.campaign
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("name", KINDS)
async def test_fifty_runs(running, name, capsys):
    """Fifty seeds; a third of them kill the server, a third stop it politely. The totals are printed."""
    seen = await campaign(KINDS[name], await running(KINDS[name].server), FIFTY, sys.stderr.write)
    with capsys.disabled():
        sys.stdout.write(f"\n{name}: {seen}\n")
    assert seen.problems == []
    assert seen.losses >= 50 * 2


# -- what judges -------------------------------------------------------------------------------------------------------
class Deaf(SocketIo):
    """A client that overhears every number that ends in 2, and says nothing."""

    def dialect(self, rng):
        """The dialect, whose `decode` drops them."""
        dialect = super().dialect(rng)

        def decode(frame):
            facts = dialect.decode(frame)
            is_dropped = any(
                getattr(fact, "type", "") == "tick" and fact.raw[1] % 10 == 2 for fact in facts
            )
            return () if is_dropped else facts

        return dialect.evolve(decode=decode)


class Blind(SocketIo):
    """A client that does not know its session again."""

    def dialect(self, rng):
        """The dialect without positions."""
        return super().dialect(rng).evolve(positions=None)


@pytest.mark.real
@pytest.mark.parametrize(
    ("kind", "problem"), [(Deaf, "were lost without a gap"), (Blind, "instead of RECOVERED")]
)
async def test_a_run_notices_what_is_wrong(running, kind, problem):
    """A loss without a gap, and a verdict that is worse than it has to be."""
    seen = await Run(kind, await running(kind.server), 8).make()
    assert any(problem in found for found in seen.problems), seen.problems


GAP = rb.bridge.Gap(rb.bridge.Verdict.GAP, None, None, "new_session")
CASES = [
    ("all of it", [1, 2, 3], 0),
    ("a hole with its gap", [1, GAP, 3], 0),
    ("a hole without one", [1, 3], 1),
    ("a gap before the hole", [GAP, 1, 3], 1),
    ("a gap behind the hole", [1, 3, GAP], 1),
    ("twice", [1, 2, 2, 3], 1),
    ("the wrong order", [1, 3, 2], 1),
    ("the end is missing", [1, 2], 1),
    ("the end is missing, with a gap", [1, 2, GAP], 0),
]


@pytest.mark.parametrize(
    ("stream", "count"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_the_judge_of_numbers(stream, count):
    """Numbers 1 to 3 were published; so many problems."""
    heard = [item if isinstance(item, rb.bridge.Gap) else Heard((item,)) for item in stream]
    problems = order_problems(heard, None, [1, 2, 3], lambda published, _: published)
    assert len(problems) == count, problems


@pytest.mark.parametrize(
    ("state", "effects", "count"),
    [
        *(("confirmed", 1, 0), ("confirmed", 0, 1), ("confirmed", 2, 1)),
        *(("unknown", 0, 0), ("unknown", 1, 0), ("unknown", 2, 1), ("written", 2, 1)),
        *(("expired", 1, 1), ("expired", 0, 0)),
    ],
)
def test_the_judge_of_sends(state, effects, count):
    """A receipt, how often the message had its effect, and so many problems."""
    assert len(send_problems({1: state}, Counter({1: effects}), settles_all=False)) == count
