"""`stdio`: requests and notifications over the pipes of a real child, whatever it writes in between."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

import resilient_bridge as rb
from resilient_bridge.adapters import stdio
from tests.peers.running import until
from tests.rows import each_row


CHILD = (sys.executable, "-I", "-S", str(Path(__file__).with_name("child.py")))
pytestmark = pytest.mark.real


def as_hex(data: bytes) -> dict[str, str]:
    return {"hex": data.hex()}


# -- what is asked ----------------------------------------------------------------------------------------------------
async def test_answers_find_their_questions_in_any_order():
    """Each answer goes to its request; the child is a process of its own, and a status line says how it stands."""
    async with stdio(*CHILD)() as peer:
        assert repr(peer) == f"<Peer {Path(sys.executable).name} pid={peer.pid} open waiting=0>"
        shown = "close_exc missed noise notifications notify pid request returncode stderr unmatched wait_closed"
        assert [
            name for name in dir(peer) if not name.startswith("_")
        ] == shown.split()  # no callback (J05)
        slow = asyncio.create_task(peer.request("silence"))
        await until(lambda: peer._calls)
        fast = await asyncio.gather(
            *(peer.request("echo", {"n": n}, timeout=timedelta(seconds=9)) for n in range(9))
        )
        assert fast == [{"n": n} for n in range(9)]
        await peer.notify("say", {"message": {"id": 1, "result": "at last"}})
        assert await slow == "at last"
        assert await peer.request("echo") == {}
        assert peer.pid != os.getpid()
        assert (peer.noise, peer.unmatched, peer.missed, peer.returncode, peer.close_exc) == (
            0,
            0,
            0,
            None,
            None,
        )


NOISE = [
    b"listening on port 3\n",
    b"\n",
    b"  \r\n",
    b"\xff\xfe not utf-8\n",
    b'{"level":"info","method":"GET","id":1}\n',  # JSON, but no JSON-RPC
    b'{"jsonrpc":"1.0","id":1,"result":1}\n',
    b'[{"jsonrpc":"2.0","id":1,"result":1}]\n',
    b'{"jsonrpc":"2.0"}\n',
    b'{"jsonrpc":"2.0","id":1,"method":7}\n',
    b'{"jsonrpc":"2.0","method":"x","params":7}\n',
    b'{"jsonrpc":"2.0","id":[1],"result":1}\n',
    b'{"jsonrpc":"2.0","id":1,"result":\n',
    b'{"jsonrpc":"2.0","id":"' + b"q" * 2_000 + b'","method":"x"}\n',
    b"17\n",
    b"[" * 100_000 + b"\n",
    b"9" * 5_000 + b"\n",
]


@pytest.mark.requirement("G5")
async def test_noise_on_stdout_is_skipped_and_counted():
    """What is no JSON-RPC object answers nothing, ends nothing, and is counted line by line."""
    async with stdio(*CHILD)() as peer:
        asked = asyncio.create_task(peer.request("silence"))
        for number, line in enumerate(NOISE, 1):
            await peer.request("raw", {**as_hex(line), "then_answer": True})
            assert (number, peer.noise) == (number, number)
        assert not asked.done()
        assert await peer.request("echo", {"still": "here"}) == {"still": "here"}
        asked.cancel()
        assert (peer.unmatched, peer.close_exc) == (0, None)


async def test_a_line_may_arrive_in_pieces_and_end_either_way():
    """Half a line waits for the other half; `\\r\\n` ends it as well, and a byte order mark before it is no noise."""
    async with stdio(*CHILD)() as peer:
        half = asyncio.create_task(
            peer.request("raw", as_hex(b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"resu'))
        )
        await until(lambda: peer._calls)
        await peer.notify("raw", as_hex(b'lt":"wh\xc3'))
        await peer.notify("raw", as_hex(b'\xb6le"}\r\n'))
        assert await half == "whöle"
        assert peer.noise == 0


async def test_ten_megabytes_survive_in_both_directions():
    """A line of 10 MB goes out and comes back as it was."""
    text = "0123456789 größe" * 2**19 + "\u2028\n\r\x00"
    async with stdio(*CHILD)() as peer:
        assert len(json.dumps(text)) > 10_000_000
        assert await peer.request("echo", {"text": text}) == {"text": text}


async def test_a_line_over_the_limit_is_skipped_and_the_next_is_whole():
    """It is counted as noise, and who waits for it waits in vain; the line after it is read."""
    async with stdio(*CHILD, max_line=1_000)() as peer:
        with pytest.raises(rb.errors.AttemptTimeoutError):
            await peer.request("echo", {"text": "x" * 200_000}, timeout=0.3)
        assert await peer.request("echo", {"text": "x" * 900}) == {"text": "x" * 900}
        assert (peer.noise, peer.unmatched) == (1, 0)


async def test_reading_never_blocks_writing():
    """A child that writes megabytes before it reads again, while megabytes wait for it: both sides get through."""
    async with stdio(*CHILD)() as peer:
        flood = asyncio.create_task(peer.request("flood", {"count": 300, "size": 10_000}))
        lengths = await asyncio.gather(
            *(peer.request("length", {"text": "y" * 200_000}) for _ in range(20))
        )
        assert await flood == 300
        assert lengths == [200_000] * 20
        assert peer.missed == 0


# -- what goes wrong --------------------------------------------------------------------------------------------------
@pytest.mark.requirement("S4")
@pytest.mark.parametrize(
    ("error", "kind", "category", "retryable"),
    [
        (
            {"code": -32002, "message": "worker w1 failed"},
            rb.BridgeError,
            rb.Category.UPSTREAM,
            False,
        ),
        (
            {"code": -32601, "message": "no such method"},
            rb.errors.ProtocolError,
            rb.Category.PROTOCOL,
            False,
        ),
        ({"code": -32003, "message": "who are you"}, rb.errors.AuthError, rb.Category.AUTH, False),
        (
            {"code": -32000, "message": "busy", "data": {"type": "TRANSPORT", "retryable": True}},
            rb.BridgeError,
            rb.Category.TRANSPORT,
            True,
        ),
        ({}, rb.BridgeError, rb.Category.INTERNAL, False),
    ],
)
async def test_an_error_answer_raises_what_it_stands_for(error, kind, category, retryable):
    """It is classified like any JSON-RPC error, and the link goes on."""
    async with stdio(*CHILD)() as peer:
        with pytest.raises(kind) as caught:
            await peer.request("answer", {"error": error})
        failure = rb.classify(caught.value)
        assert (failure.category, failure.retryable) == (category, retryable)
        assert failure.message == error.get("message", "internal error")
        assert await peer.request("answer", {"error": None, "result": 5}) == 5


@pytest.mark.requirement("S4")
@pytest.mark.parametrize("answer", [{}, {"error": "no object"}, {"error": None}, {"results": 3}])
async def test_a_malformed_answer_is_the_failure_of_the_worker(answer):
    """Neither result nor error: UPSTREAM, not retryable, and it may have run."""
    async with stdio(*CHILD)() as peer:
        with pytest.raises(
            rb.errors.ProtocolError, match="answer: invalid answer: wanted a result or an error"
        ) as caught:
            await peer.request("answer", answer)
        failure = rb.classify(caught.value)
        assert (failure.category, failure.retryable) == (rb.Category.UPSTREAM, False)
        assert failure.executed is rb.errors.Executed.MAYBE
        assert peer.noise == 0


@pytest.mark.requirement("S4")
async def test_a_request_that_takes_too_long_may_have_run_and_its_answer_is_dropped():
    """AttemptTimeoutError, retryable; the late answer is counted, and no later request gets it."""
    async with stdio(*CHILD)() as peer:
        with pytest.raises(
            rb.errors.AttemptTimeoutError,
            match=r"silence: no answer within 0\.1 s; it was handed out",
        ) as caught:
            await peer.request("silence", timeout=0.1)
        failure = rb.classify(caught.value)
        assert (failure.code, failure.retryable) == ("SYS_TIMEOUT", True)
        assert failure.executed is rb.errors.Executed.MAYBE
        await peer.notify("say", {"message": {"id": 1, "result": "too late"}})
        assert await peer.request("echo", {"a": 1}) == {"a": 1}
        assert peer.unmatched == 1


async def test_l05_a_request_without_a_limit_waits():
    """`timeout=None` waits for the answer, `timeout=0` for none, and no other word is taken."""
    async with stdio(*CHILD)() as peer:
        asking = asyncio.create_task(peer.request("silence", timeout=None))
        await until(lambda: peer._calls)
        with pytest.raises(rb.errors.AttemptTimeoutError):
            await peer.request("silence", timeout=0)
        with pytest.raises(rb.ConfigError, match=r"request\.timeout"):
            await peer.request("silence", timeout="none")
        assert not asking.done()
        await peer.notify("say", {"message": {"id": 1, "result": "at last"}})
        assert await asking == "at last"


async def test_a_request_that_was_never_sent_says_so():
    """While the pipe is full the next line waits: timed out there, it did not run and is never written."""
    async with stdio(*CHILD, close_timeout=0.1)() as peer:
        await peer.request("deaf")
        full = asyncio.create_task(peer.request("length", {"text": "x" * 10**6}))
        await until(lambda: peer._calls)
        with pytest.raises(rb.errors.AttemptTimeoutError, match="it never left") as caught:
            await peer.request("echo", timeout=0.1)
        assert rb.classify(caught.value).executed is rb.errors.Executed.NO
        assert not peer._child._queue
        full.cancel()


async def test_a_cancelled_request_is_forgotten():
    """Nothing waits for its answer any more; one that had not left is not written."""
    async with stdio(*CHILD)() as peer:
        asked = asyncio.create_task(peer.request("silence"))
        await until(lambda: peer._calls)
        asked.cancel()
        await asyncio.wait([asked])
        assert asked.cancelled()
        await peer.notify("say", {"message": {"id": 1, "result": "for nobody"}})
        await peer.request("echo")
        assert (peer._calls, peer.unmatched) == ({}, 1)


async def test_an_answer_to_no_question_does_no_harm():
    """Unknown, repeated and strange ids match nothing, `true` is not 1, and each is counted."""
    async with stdio(*CHILD)() as peer:
        asked = asyncio.create_task(peer.request("silence"))
        await until(lambda: peer._calls)
        strange = ["1", None, 99, -1, 1.5]
        for number in strange:
            await peer.notify("say", {"message": {"id": number, "result": "wrong"}})
        await peer.notify(
            "say", {"message": {"id": True, "result": "wrong"}}
        )  # an id that cannot be: noise
        await peer.notify("say", {"message": {"id": 1.0, "result": "right"}})  # how Lua writes 1
        await peer.notify("say", {"message": {"id": 1, "result": "again"}})
        assert await asked == "right"
        await peer.request("echo")
        assert (peer.unmatched, peer.noise) == (len(strange) + 1, 1)


# -- what comes unasked -----------------------------------------------------------------------------------------------
async def test_notifications_stay_in_order_until_they_are_read():
    """From the start on, whoever reads and whenever; positional params come under `params`."""
    async with stdio(*CHILD)() as peer:
        await peer.notify("say", {"message": {"method": "log", "params": {"text": "hi"}}})
        await peer.notify("say", {"message": {"method": "list", "params": [1, 2]}})
        await peer.notify("say", {"message": {"method": "bare", "id": None}})
        await peer.request("echo")
        reader = peer.notifications()
        seen = [await anext(reader) for _ in range(2)] + [await anext(peer.notifications())]
        assert [(note.type, note.payload) for note in seen] == [
            ("log", {"text": "hi"}),
            ("list", {"params": [1, 2]}),
            ("bare", {}),
        ]
        waiting = asyncio.create_task(anext(reader))
        await peer.notify("say", {"message": {"method": "later"}})
        assert (await waiting).type == "later"
        last = asyncio.create_task(anext(reader, "ended"))
        await asyncio.sleep(0)
    assert await last == "ended"
    assert [note async for note in peer.notifications()] == []


async def test_l02_a_second_reader_of_notifications_is_refused():
    """Two tasks would share them out between them; the first one reads on, and its place is free when its loop ends."""
    async with stdio(*CHILD)() as peer:
        read = list[str]()

        async def first() -> None:
            async for note in peer.notifications():
                read.append(note.type)
                if note.type == "last":
                    break

        task = asyncio.create_task(first())
        await peer.request("echo")  # by now it waits
        with pytest.raises(rb.ConfigError, match="one reader at a time"):
            async for _ in peer.notifications():
                pass
        with pytest.raises(rb.ConfigError, match=r"Peer\.notifications"):
            await anext(peer.notifications())
        for name in ("one", "last"):
            await peer.notify("say", {"message": {"method": name}})
        await task
        assert read == ["one", "last"]
        await peer.notify("say", {"message": {"method": "later"}})
        assert (await anext(peer.notifications())).type == "later"


async def test_notifications_that_no_one_reads_are_bounded():
    """The last 1,000 stay, and of large ones as many as fit; the older are dropped and counted."""
    async with stdio(*CHILD)() as peer:
        await peer.request("flood", {"count": 1_500})
        assert peer.missed == 500
        assert (await anext(peer.notifications())).payload["number"] == 500
    async with stdio(*CHILD, max_line=50_000)() as peer:
        await peer.request("flood", {"count": 50, "size": 9_900})
        assert peer.missed == 45
        assert (await anext(peer.notifications())).payload["number"] == 45


async def test_a_request_from_the_child_is_answered_with_method_not_found():
    """It learns that nobody serves it instead of waiting for ever."""
    async with stdio(*CHILD)() as peer:
        for number in ("q1", 2.5):
            await peer.notify(
                "say", {"message": {"id": number, "method": "sampling/createMessage"}}
            )
        await peer.request("echo")
        heard = await peer.request("unasked")
        error = {"code": -32601, "message": "method not found"}
        assert heard == [{"jsonrpc": "2.0", "id": number, "error": error} for number in ("q1", 2.5)]


async def test_a_child_that_asks_and_does_not_read_costs_no_memory():
    """Answers that it does not read are bounded: the rest of its requests are counted, and the link goes on."""
    asking = b"".join(
        b'{"jsonrpc":"2.0","id":%d,"method":"may I"}\n' % number for number in range(5_000)
    )
    async with stdio(*CHILD)() as peer:
        await peer.request("raw", {**as_hex(asking), "then_answer": True})
        assert peer.missed > 1_000
        heard = await peer.request("unasked")
        assert len(heard) + peer.missed == 5_000
        assert peer._refusing == 0


# -- what may not be asked --------------------------------------------------------------------------------------------
SECRET = "s3cret-canary"


@each_row(
    ("make", "field"),
    [
        (stdio, "stdio.command"),
        (lambda: stdio("", SECRET), "stdio.command"),
        (lambda: stdio("x", 3), r"stdio.command\[1\]"),
        (lambda: stdio("x", f"{SECRET}\0"), r"stdio.command\[1\]"),
        (lambda: stdio("x", "\ud800"), r"stdio.command\[1\]"),
        (lambda: stdio(["x", SECRET]), r"stdio.command\[0\]"),
        (lambda: stdio("x", cwd=3), "stdio.cwd"),
        (lambda: stdio("x", cwd=""), "stdio.cwd"),
        (lambda: stdio("x", env=[("A", SECRET)]), "stdio.env"),
        (lambda: stdio("x", env={"A": 3}), "stdio.env"),
        (lambda: stdio("x", env={"A": f"{SECRET}\0"}), "stdio.env"),
        (lambda: stdio("x", env={f"A={SECRET}": "b"}), "stdio.env"),
        (lambda: stdio("x", max_line=0), "stdio.max_line"),
        (lambda: stdio("x", max_line=1.5), "stdio.max_line"),
        (lambda: stdio("x", close_timeout=-1), "stdio.close_timeout"),
        (lambda: stdio("x", close_timeout=float("nan")), "stdio.close_timeout"),
        (lambda: stdio("x", close_timeout="2"), "stdio.close_timeout"),
    ],
)
def test_a_bad_argument_is_refused_at_once(make, field):
    """Before anything runs, with the name of the argument and without what it holds."""
    with pytest.raises(rb.ConfigError, match=f"{field}.*: wanted ") as caught:
        make()
    assert SECRET not in caught.value.failure.explain() + str(caught.value)


@each_row(
    ("ask", "field"),
    [
        (lambda peer: peer.request(""), "request.method"),
        (lambda peer: peer.request(3), "request.method"),
        (lambda peer: peer.request("x", [1]), "request.params"),
        (lambda peer: peer.request("x", {"a": object()}), "request.params"),
        (lambda peer: peer.request("x", {"a": float("nan")}), "request.params"),
        (lambda peer: peer.request("x", timeout=-1), "request.timeout"),
        (lambda peer: peer.notify("", {}), "notify.method"),
        (lambda peer: peer.notify("x", {"a": {1, 2}}), "notify.params"),
    ],
)
async def test_what_cannot_be_sent_is_refused(ask, field):
    """Nothing is written, and the link goes on."""
    async with stdio(*CHILD)() as peer:
        with pytest.raises(rb.ConfigError, match=f"{field}: wanted "):
            await ask(peer)
        assert await peer.request("unasked") == []


async def test_each_block_has_a_child_of_its_own(tmp_path):
    """One factory, as many children as it is asked for, in the folder and the environment that it was given."""
    script = "import json, os; print(json.dumps({'jsonrpc': '2.0', 'method': os.getcwd(), 'params': dict(os.environ)}))"
    environment = {"TOKEN": SECRET}
    factory = stdio(*CHILD[:3], "-c", f"{script}; input()", cwd=tmp_path, env=environment)
    environment.clear()
    async with factory() as first, factory() as second:
        assert first.pid != second.pid
        for peer in (first, second):
            note = await anext(peer.notifications())
            assert (note.type, note.payload["TOKEN"]) == (str(tmp_path), SECRET)
            assert "PATH" not in note.payload
    assert repr(factory) == f"<stdio {Path(sys.executable).name}>"


def test_it_loads_no_network():
    """A child process needs neither a WebSocket nor an HTTP stack."""
    code = "import sys, resilient_bridge.adapters.processes.stdio; print({'websockets', 'httpx', 'mcp'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize(
    "answer", [{"isError": True, "content": "timed out"}, {"rows": 3}], ids=["failed", "worked"]
)
async def test_k01_the_dicts_of_a_peer_are_answers_of_a_server(answer):
    """Behind a link, a tool's reported failure is one: repeated, counted by the circuit, and returned."""
    calls = rb.Policy(
        rb.Retry(attempts=2, backoff=rb.Backoff.constant(0)), rb.Breaker.consecutive(2)
    )
    link = rb.reconnecting(stdio(*CHILD), rb.bridge.BridgePolicy(calls=calls), idempotent=True)
    async with link as peer:
        assert await peer.request("echo", answer) == answer
        assert rb.calls.circuit(link).state == ("open" if "isError" in answer else "closed")
