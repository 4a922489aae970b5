"""The journal of tool calls: what may not be repeated is called once, whatever its answer says and whenever the process dies."""

from __future__ import annotations

import json
import os
import sys

import pytest

import resilient_bridge as rb
from resilient_bridge.agent import Workflow, WorkflowStatus
from tests.agent.workflow.flows import FILES, damage, value_in, without


HALTED, COMPLETED = WorkflowStatus.HALTED, WorkflowStatus.COMPLETED
RESET = ConnectionResetError(104, "connection reset")


class Shop:
    """A workflow with one phase, `buy`, and tools that count: `order` must not run twice, `look` may; `fail` says what they raise, in turn."""

    def __init__(self, root, body, *, items=("book",), **options):
        self.root, self.placed, self.looked, self.fail, self.runs = root, [], [], {}, 0
        box = rb.agent.Toolbox(rb.presets.ccsetup)

        @box.tool
        def order(item: str) -> dict:
            self.placed.append(item)
            self._fail("order")
            return {"ordered": item, "number": len(self.placed)}

        @box.tool(idempotent=True)
        async def look(at: str) -> str:
            self.looked.append(at)
            self._fail("look")
            return f"seen {at}"

        @box.command
        def ship(text: str) -> list[str]:
            script = f"open({str(root / 'shipped')!r}, 'a').write('x'); print({text!r}, file=sys.stderr); sys.exit(1)"
            return [sys.executable, "-c", f"import sys; {script}"]

        self.flow = Workflow(root / "state.json", root=root, tools=box)
        self.box, self.items = box, items

        async def buy(phase):
            self.runs += 1
            await body(self, phase)

        self.flow.phase(**options)(buy)

    def _fail(self, tool):
        if errors := self.fail.get(tool):
            raise errors.pop(0)

    async def run(self):
        with rb.testing.virtual_time():
            return await self.flow.run()

    async def resume(self):
        with rb.testing.virtual_time():
            return await self.flow.resume()


async def one_order(shop, phase):
    await phase.call("order", {"item": "book"})


TEXTS = (
    "Unexpected token < in JSON",
    "Operation incomplete",
    "State mismatch",
    "Invalid JSON",
    "Schema validation failed",
    "429 Too Many Requests",
    "connect ECONNREFUSED 127.0.0.1:25",
    "rate limit",
    "EAGAIN",
    "getaddrinfo ENOTFOUND mail",
)


@pytest.mark.requirement("C6")
@pytest.mark.parametrize(
    ("text", "idempotent"),
    [
        *((text, None) for text in TEXTS),
        *((text, option) for text in (*TEXTS[:2], TEXTS[5]) for option in (True, False)),
    ],
)
async def test_a02_an_order_is_placed_once_whatever_its_answer_says(tmp_path, text, idempotent):
    """The tool may have run and may not run twice: neither it nor its phase is repeated, and a person is asked."""
    shop = Shop(tmp_path, one_order, idempotent=idempotent)
    shop.fail["order"] = [RuntimeError(text)] * 9
    report = await shop.run()
    assert (report.status, shop.placed) == (HALTED, ["book"])
    assert report.failure.executed is rb.errors.Executed.MAYBE
    assert "order" in report.explain()
    assert not any("done again" in one for one in report.warnings)
    assert (await shop.run()).status is HALTED  # until somebody has looked
    assert shop.placed == ["book"]


@pytest.mark.requirement("C6")
@pytest.mark.parametrize(
    "text",
    ["SyntaxError: Unexpected token < in JSON", "Operation incomplete", "429 Too Many Requests"],
)
async def test_a02_a_command_is_run_once_whatever_it_prints(tmp_path, text):
    """Its effect comes before its error output."""

    async def body(shop, phase):
        await phase.call("ship", {"text": text})

    shop = Shop(tmp_path, body)
    report = await shop.flow.run()
    assert (report.status, (tmp_path / "shipped").read_text()) == (HALTED, "x")


@pytest.mark.requirement("C6")
@pytest.mark.requirement("C9")
async def test_a02_what_succeeded_is_not_called_again_when_a_later_tool_is_corrupt(tmp_path):
    """The phase is done again: the order comes from the journal, and what may be repeated is called."""
    seen = []

    async def body(shop, phase):
        seen.append(await phase.call("order", {"item": "book"}))
        seen.append(await phase.call("look", {"at": "it"}))

    shop = Shop(tmp_path, body)
    shop.fail["look"] = [RuntimeError("Invalid JSON")]
    report = await shop.run()
    assert (report.status, shop.placed, shop.looked) == (COMPLETED, ["book"], ["it", "it"])
    assert seen == [{"ordered": "book", "number": 1}, {"ordered": "book", "number": 1}, "seen it"]
    assert any("buy was done again" in text for text in report.warnings)


async def test_a02_a_missing_artifact_repeats_what_may_be_repeated_and_no_order(tmp_path):
    """What makes the artifact is called again, because the journal would not make it."""

    async def body(shop, phase):
        await phase.call("order", {"item": "book"})
        await phase.call("look", {"at": "it"})
        if len(shop.looked) == 2:
            (shop.root / "seen.txt").write_text("x")

    shop = Shop(tmp_path, body, artifacts=["seen.txt"])
    report = await shop.run()
    assert (report.status, shop.placed, shop.looked) == (COMPLETED, ["book"], ["it", "it"])


async def test_a02_a_finished_phase_that_is_undone_places_no_second_order(tmp_path):
    """Its artifact was removed after it had ended: the phase runs again, and takes the order from the journal."""

    async def body(shop, phase):
        order = await phase.call("order", {"item": "book"})
        (shop.root / "receipt.txt").write_text(json.dumps(order))

    assert (await Shop(tmp_path, body, artifacts=["receipt.txt"]).run()).is_completed
    saved = (tmp_path / "receipt.txt").read_text()
    (tmp_path / "receipt.txt").unlink()
    again = Shop(tmp_path, body, artifacts=["receipt.txt"])
    assert (await again.run()).is_completed
    assert (again.placed, (tmp_path / "receipt.txt").read_text()) == ([], saved)


async def test_the_failure_of_the_phases_own_code_is_not_repeated_unless_it_says_so(tmp_path):
    """None: once. True: as the policy says, and what must not run twice comes from the journal."""

    async def body(shop, phase):
        await phase.call("order", {"item": "book"})
        if shop.runs < 3:
            raise RESET if shop.runs == 1 else RuntimeError("State mismatch")

    (tmp_path / "x").mkdir()
    none, true = Shop(tmp_path, body), Shop(tmp_path / "x", body, idempotent=True)
    assert ((await none.run()).status, none.runs) == (HALTED, 1)
    assert ((await true.run()).status, true.runs, true.placed) == (COMPLETED, 3, ["book"])


@pytest.mark.parametrize("idempotent", [None, False])
async def test_a_phase_that_says_that_it_did_nothing_is_repeated(tmp_path, idempotent):
    """`raise NotExecutedError from error` in its own code: proof, which no `idempotent=False` overrules; a refusal alone is none."""

    async def body(shop, phase):
        if shop.runs < 3:
            raise rb.NotExecutedError from ConnectionRefusedError(111, "refused")

    async def refused(shop, phase):
        raise ConnectionRefusedError(111, "refused")

    (tmp_path / "x").mkdir()
    shop, other = (
        Shop(tmp_path, body, idempotent=idempotent),
        Shop(tmp_path / "x", refused, idempotent=idempotent),
    )
    assert ((await shop.run()).status, shop.runs) == (COMPLETED, 3)
    assert ((await other.run()).status, other.runs) == (HALTED, 1)


async def test_an_order_that_was_caught_is_still_in_doubt(tmp_path):
    """The phase went on without an answer, and failed of something that would be done again: not with that order in it."""

    async def body(shop, phase):
        with pytest.raises(rb.BridgeError):
            await phase.call("order", {"item": "book"})
        await phase.call("look", {"at": "it"})

    shop = Shop(tmp_path, body, idempotent=True)
    shop.fail.update(order=[RESET], look=[RuntimeError("Operation incomplete")])
    report = await shop.run()
    assert (report.status, shop.placed, shop.runs) == (HALTED, ["book"], 1)
    assert any("find out what order did" in text for text in report.failure.suggestions)


# ---- crashes -------------------------------------------------------------------------------------------------------


def dies(root, body):
    """Run the workflow in a process that ends in the middle; return what it had placed."""
    if (
        pid := os.fork()
    ) == 0:  # no thread is running in a test's process that the child would need
        import asyncio

        try:
            shop = Shop(root, body)
            asyncio.new_event_loop().run_until_complete(shop.flow.run())
        finally:
            os._exit(1)
    os.waitpid(pid, 0)


@pytest.mark.requirement("C9")
def test_h02_after_a_crash_each_finished_call_comes_from_the_journal(tmp_path):
    """Killed after both calls had ended: neither runs again, also the one that may, and the phase sees what it saw."""
    ledger = tmp_path / "ledger"

    async def first(shop, phase):
        got = [
            await phase.call("order", {"item": "book"}),
            await phase.call("look", '{"at": "it"}'),
        ]
        ledger.write_text(json.dumps(got))
        os._exit(9)

    async def second(shop, phase):
        got = [
            await phase.call("order", '{"item": "book"}'),
            await phase.call("look", {"at": "it"}),
        ]
        assert got == json.loads(ledger.read_text())

    dies(tmp_path, first)
    state = value_in(tmp_path / "state.json")
    assert [(one["tool"], one["result"]["json"]) for one in state["calls"]] == [
        ("order", {"ordered": "book", "number": 1}),
        ("look", "seen it"),
    ]
    for name in ("state.json.journal", "state.json.journal.bak"):  # each copy has it
        with without(tmp_path / name):
            assert value_in(tmp_path / "state.json") == state
    import asyncio

    shop = Shop(tmp_path, second)
    report = asyncio.run(shop.run())
    assert (report.status, shop.placed, shop.looked) == (COMPLETED, [], [])


@pytest.mark.requirement("C9")
@pytest.mark.parametrize("spoiled", [None, *FILES])
def test_h02_killed_inside_of_an_order_the_workflow_halts_and_names_it(tmp_path, spoiled):
    """Also with one damaged file: the beginning of the call is in both copies of the journal before it is made. After a look at it,
    resume calls it."""
    import asyncio

    async def first(shop, phase):
        shop.placed = type("Dies", (), {"append": lambda *_: os._exit(9)})()
        await phase.call("order", {"item": "book"})

    dies(tmp_path, first)
    if spoiled is not None:
        damage(tmp_path / spoiled)
    shop = Shop(tmp_path, one_order)
    report = asyncio.run(shop.run())
    assert (report.status, report.failure.code, shop.placed) == (HALTED, "SYS_OUTCOME_UNKNOWN", [])
    assert "tool order may have run as call 1 of phase buy" in report.failure.message
    assert (asyncio.run(shop.resume()).status, shop.placed) == (COMPLETED, ["book"])


@pytest.mark.requirement("C9")
async def test_h02_the_state_is_saved_before_and_after_a_required_call(tmp_path):
    """Seed: "save checkpoint if required", then "update checkpoint, write backup"; an optional call that may be repeated is recorded at its end."""
    seen = []

    async def body(shop, phase):
        await phase.call("peek", {})
        await phase.call("glance", {})
        seen.append([one["tool"] for one in value_in(tmp_path / "state.json")["calls"]])

    shop = Shop(tmp_path, body)

    def note() -> None:
        calls = value_in(tmp_path / "state.json")["calls"]
        seen.append([(one["tool"], one["result"] is None) for one in calls])

    shop.box.tool(name="peek", idempotent=True)(note)
    shop.box.tool(name="glance", idempotent=True, required=False)(note)
    assert (await shop.flow.run()).is_completed
    assert seen == [[("peek", True)], [("peek", False)], ["peek", "glance"]]


# ---- what the journal cannot tell ------------------------------------------------------------------------------------


async def killed_after_the_calls(tmp_path, first, second):
    """Run one body up to a failure that a crash would be, then another one as the next program."""
    shop = Shop(tmp_path, first)
    with pytest.raises(SystemExit):
        await shop.run()
    again = Shop(tmp_path, second)
    return shop, again, await again.run()


async def test_another_call_instead_of_one_is_reported_and_made_if_it_may_be_repeated(tmp_path):
    """No result of another call is passed off as its own."""
    results = []

    async def first(shop, phase):
        await phase.call("look", {"at": "a"})
        raise SystemExit

    async def second(shop, phase):
        results.append(await phase.call("look", {"at": "b"}))

    _, again, report = await killed_after_the_calls(tmp_path, first, second)
    assert (report.status, again.looked, results) == (COMPLETED, ["b"], ["seen b"])
    assert any(
        "call 1 is one of look, and was another one in an earlier run" in one
        for one in report.warnings
    )


@pytest.mark.parametrize(
    "calls", [[("order", {"item": "pen"})], [("look", {"at": "a"}), ("order", {"item": "book"})]]
)
async def test_an_order_that_cannot_be_distinguished_from_the_earlier_one_is_not_made(
    tmp_path, calls
):
    """Other arguments, or another place: it may be the same order. A person decides; then it is made."""

    async def first(shop, phase):
        await phase.call("order", {"item": "book"})
        raise SystemExit

    async def second(shop, phase):
        for tool, arguments in calls:
            await phase.call(tool, arguments)

    _, again, report = await killed_after_the_calls(tmp_path, first, second)
    assert (report.status, report.failure.code, again.placed) == (HALTED, "SYS_OUTCOME_UNKNOWN", [])
    assert "in an earlier run it was call 1 or had other arguments" in report.failure.message
    assert (await again.resume()).is_completed
    assert again.placed == [calls[-1][1]["item"]]


async def test_an_order_whose_result_could_not_be_saved_is_not_made_again(tmp_path):
    """It returned what JSON cannot hold: it has run, and its result is gone."""

    done: list[int] = []

    async def second(shop, phase):
        shop.box.tool(name="odd")(lambda: done.append(1) or object())
        await phase.call("odd")

    async def first(shop, phase):
        await second(shop, phase)
        raise SystemExit

    _, _, report = await killed_after_the_calls(tmp_path, first, second)
    assert (report.status, len(done)) == (HALTED, 1)
    assert "it has run, and its result could not be kept" in report.failure.message


async def test_a_call_that_did_not_run_leaves_no_doubt(tmp_path):
    """Arguments that do not fit: nothing was called, and the next run makes the call."""

    async def first(shop, phase):
        with pytest.raises(rb.BridgeError):
            await phase.call("order", {"itm": "book"})
        assert value_in(tmp_path / "state.json")["calls"] == []
        raise SystemExit

    _, again, report = await killed_after_the_calls(tmp_path, first, one_order)
    assert (report.status, again.placed) == (COMPLETED, ["book"])


async def test_the_result_of_a_command_comes_back_as_one(tmp_path):
    """With exit code and output, as its first caller had it."""
    results = []

    async def call(shop, phase):
        shop.box.command(name="echo")(lambda text: ["echo", text])
        results.append(await phase.call("echo", {"text": "hello"}))

    async def first(shop, phase):
        await call(shop, phase)
        raise SystemExit

    _, _, report = await killed_after_the_calls(tmp_path, first, call)
    assert report.is_completed
    assert (results[0], results[1].stdout) == (results[1], "hello\n")
