"""A workflow whose toolbox has effects: what became of a call in doubt is found out, instead of halting for its user."""

from __future__ import annotations

import pytest

from resilient_bridge.agent import Toolbox, Workflow
from resilient_bridge.stores import NOT_RUN, Effects, Ran


class Shop:
    """A workflow of one phase that pays; each run is a life: `dies` says where it ends."""

    def __init__(self, root):
        self.root, self.paid, self.dies, self.verdict = root, [], "", None
        self.asked = 0

    def find(self, call):
        self.asked += 1
        return self.verdict

    async def run(self, how="run", *, verifies=True):
        verify = {"pay": self.find} if verifies else None
        with Effects(self.root / "effects.db", verify=verify) as effects:
            toolbox = Toolbox(effects=effects)

            @toolbox.tool
            async def pay(order: str) -> str:
                if self.dies == "before":
                    raise KeyboardInterrupt
                self.paid.append(order)
                if self.dies == "after":
                    raise KeyboardInterrupt
                return f"paid {order}"

            flow = Workflow(self.root / "state.json", name="flow", root=self.root, tools=toolbox)

            @flow.phase(name="pay")
            async def paying(phase):
                self.answer = await phase.call("pay", {"order": "A-7"})

            return await getattr(flow, how)()

    async def die(self, where):
        """Run, and be interrupted as by a signal."""
        self.dies = where
        with pytest.raises(KeyboardInterrupt):
            await self.run()
        self.dies = ""


@pytest.fixture
def shop(tmp_path):
    (tmp_path / "flow").mkdir(mode=0o700)
    return Shop(tmp_path / "flow")


@pytest.mark.requirement("X15")
@pytest.mark.parametrize("where", ["before", "after"])
async def test_verify_says_what_became_of_a_call_and_the_workflow_goes_on(shop, where):
    await shop.die(where)
    shop.verdict = Ran("found A-7") if where == "after" else NOT_RUN
    report = await shop.run()
    assert report.status == "completed"
    assert shop.answer == ("found A-7" if where == "after" else "paid A-7")
    assert shop.paid == ["A-7"]
    assert shop.asked == 1


async def test_without_verify_it_halts_and_its_user_decides(shop):
    await shop.die("after")
    report = await shop.run(verifies=False)
    assert report.status == "halted"
    assert "OUTCOME UNKNOWN" in str(report.errors[-1])
    assert shop.paid == ["A-7"]
    report = await shop.run("resume", verifies=False)
    assert report.status == "completed"
    assert shop.paid == ["A-7", "A-7"]


async def test_a_verify_that_cannot_say_halts_it(shop):
    await shop.die("after")
    report = await shop.run()
    assert report.status == "halted"
    assert shop.asked == 1
    shop.verdict = Ran("found A-7")
    assert (await shop.run("resume")).status == "completed"
    assert (shop.answer, shop.paid) == ("found A-7", ["A-7"])
