"""Tool calls of the how-to page's agent loop: failures go to the model as data, and the loop goes on."""

from __future__ import annotations

import asyncio

import pytest

import resilient_bridge as rb
from tests.agent.agent_loop import World, calling, claude, gpt, refused


@pytest.fixture(autouse=True)
def clock():
    """Use virtual time."""
    with rb.testing.virtual_time() as clock:
        yield clock


def failing(*errors):
    """Return a tool's function that raises these errors in order, and then succeeds."""
    ahead = list(errors)

    async def work(value):
        if ahead:
            raise ahead.pop(0)
        return f"at last {value}"

    return work


# ---- failures as data -----------------------------------------------------------------------------------------------
@pytest.mark.requirement("V6")
async def test_a_failed_tool_is_reported_to_the_model_and_the_loop_goes_on():
    """It runs once, because it may have had its effect; the model gets type, message and suggestion, and no secret."""
    error = PermissionError(13, "Permission denied: token=ghp_0123456789abcdefghijABCDEFGHIJ456789")
    world = World(
        gpt(None, calling("read_file", {"path": "a"})), gpt("I may not"), read_file=failing(error)
    )
    with rb.testing.record() as recorded:
        assert await world.run("hi") == "I may not"
    (result,) = world.tool_results()
    assert (result["type"], result["recoverable"], bool(result["suggestion"])) == (
        "permission",
        False,
        True,
    )
    assert "ghp_" not in repr(world.edge.asked)
    assert (world.ran, [type(event).__name__ for event in recorded]) == (
        ["a"],
        ["GaveUp", "ToolFailed"],
    )
    assert world.edge.who == ["gpt"] * 2


async def test_a_tool_that_may_have_run_is_repeated_only_with_permission():
    """After a lost connection `look_at`, which is idempotent, is retried; for `read_file` the model is advised to check first."""
    lost = ConnectionResetError
    asks = [calling("read_file", {"path": "a"}, 1), calling("look_at", {"url": "u"}, 2)]
    world = World(
        gpt(None, *asks), gpt("done"), read_file=failing(lost()), look_at=failing(lost(), lost())
    )
    assert await world.run("hi") == "done"
    assert sorted(world.ran) == ["a", "u", "u", "u"]
    first, second = world.tool_results()
    assert first["suggestion"].startswith(
        "it may have run: find out whether it did before doing it again; "
    )
    assert first["suggestion"].count("it may have run") == 1
    assert second["result"] == "at last u"


async def test_a_tool_that_provably_did_not_run_is_repeated():
    """A tool's own NotExecutedError needs no permission; a refused connection inside it proves nothing about the tool."""
    world = World(
        gpt(None, calling("read_file", {"path": "a"})),
        gpt("done"),
        read_file=failing(rb.NotExecutedError()),
    )
    assert await world.run("hi") == "done"
    assert (world.ran, world.tool_results()[0]["result"]) == (["a", "a"], "at last a")
    world = World(
        gpt(None, calling("read_file", {"path": "a"})),
        gpt("done"),
        read_file=failing(ConnectionRefusedError()),
    )
    assert await world.run("hi") == "done"
    assert (world.ran, "result" in world.tool_results()[0]) == (["a"], False)


WRONG = [
    ("read_fil", {"path": "a"}, "not_found", "read_file"),
    ("read_file", {"paht": "a"}, "validation", "path"),
    ("read_file", {"path": 5}, "validation", "a string"),
    ("read_file", '{"path": "a"', "validation", "JSON object"),
    ("read_file", '["a"]', "validation", "JSON object"),
    ("", "{}", "not_found", "read_file"),
]


@pytest.mark.requirement("V6")
@pytest.mark.parametrize(("name", "arguments", "kind", "hint"), WRONG)
async def test_a_wrong_call_is_reported_to_the_model(name, arguments, kind, hint):
    """With an unknown tool, wrong arguments or arguments that are not JSON nothing runs, and the model may try again."""
    again = calling("read_file", {"path": "a"}, 2)
    world = World(gpt(None, calling(name, arguments, 1)), gpt(None, again), gpt("done"))
    assert await world.run("hi") == "done"
    wrong, right = world.tool_results()
    assert (wrong["type"], world.ran, right["ok"]) == (kind, ["a"], True)
    assert hint in wrong["suggestion"]


@pytest.mark.requirement("V4")
@pytest.mark.parametrize("arguments", ['{"path": ', "[1]", ""])
async def test_what_one_model_wrote_wrong_the_other_can_read(arguments):
    """Arguments that are not a JSON object become empty for Anthropic, whose API takes only objects."""
    world = World(gpt(None, calling("read_file", arguments)), refused(429, "quota"), claude("done"))
    assert await world.run("hi") == "done"
    assert world.edge.asked[-1][1]["messages"][1]["content"][0]["input"] == {}


# ---- several at once ------------------------------------------------------------------------------------------------
async def test_the_calls_of_one_answer_run_concurrently_and_are_reported_in_order():
    """Two tools wait for each other; the first called ends last, one fails, and each result is at its call."""
    met = asyncio.Barrier(2)

    async def slow(path):
        await met.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        return path

    async def broken(url):
        await met.wait()
        raise LookupError(url)

    asks = [calling("read_file", {"path": "a"}, 1), calling("look_at", {"url": "u"}, 2)]
    world = World(gpt("both", *asks), gpt("done"), read_file=slow, look_at=broken)
    async with asyncio.timeout(10):
        assert await world.run("hi") == "done"
    messages = world.edge.asked[-1][1]["messages"]
    assert [each["tool_call_id"] for each in messages[-2:]] == ["call_1", "call_2"]
    first, second = world.tool_results()
    assert (first["result"], second["type"]) == ("a", "unknown")


@pytest.mark.requirement("V4")
async def test_the_results_of_one_answer_are_one_message_to_the_other_model():
    """Anthropic wants every result of a round in the message that follows its calls."""
    asks = [calling("read_file", {"path": each}, each) for each in "ab"]
    world = World(gpt("both", *asks), refused(429, "quota"), claude("done"))
    assert await world.run("hi") == "done"
    *_, message, results = world.edge.asked[-1][1]["messages"]
    assert [block["type"] for block in message["content"]] == ["text", "tool_use", "tool_use"]
    assert [block["tool_use_id"] for block in results["content"]] == ["call_a", "call_b"]


@pytest.mark.requirement("V9")
async def test_a_tool_finds_the_key_of_its_call():
    """The key is the id from the model, the same for every attempt, so that a server can recognise retries."""
    keys = []

    async def look(url):
        keys.append(rb.current_attempt().idempotency_key)
        if len(keys) < 3:
            raise ConnectionResetError
        return url

    world = World(gpt(None, calling("look_at", {"url": "u"}, 7)), gpt("done"), look_at=look)
    await world.run("hi")
    assert keys == ["call_7"] * 3


# ---- a capability that gives way ------------------------------------------------------------------------------------
@pytest.mark.requirement("V15")
async def test_a_browser_that_crashes_is_a_step_down_and_not_a_failure():
    """Scraping takes over within the same call, is reported once, and is the first mode of the next call."""
    browse = rb.agent.Degradation("browse", "browser", "web_scrape", "text", idempotent=True)
    tried = []

    async def browser(url):
        tried.append("browser")
        raise ConnectionResetError(104, "the browser crashed")

    def scrape(url):
        tried.append("web_scrape")
        return f"the text of {url}"

    def look(url):
        return browse.call({"browser": browser, "web_scrape": scrape}, url)

    world = World(
        *[gpt(None, calling("look_at", {"url": "u"}, n)) for n in (1, 2)], gpt("done"), look_at=look
    )
    with rb.testing.record() as recorded:
        assert await world.run("hi") == "done"
    assert [each["result"] for each in world.tool_results()] == ["the text of u"] * 2
    assert tried == ["browser", "web_scrape", "web_scrape"]
    assert [(each.previous, each.mode) for each in recorded] == [("browser", "web_scrape")]


@pytest.mark.requirement("V15")
async def test_a_way_that_hangs_gives_way_within_the_time_of_its_tool(clock):
    """A mode with a shorter timeout than the tool's fails at it; the next mode has the remaining time."""
    browse = rb.agent.Degradation("browse", "browser", "text")

    @rb.Policy(rb.Timeout(10))
    async def browser(url):
        await asyncio.Event().wait()

    def look(url):
        return browse.call({"browser": browser, "text": lambda url: f"cannot look at {url}"}, url)

    world = World(gpt(None, calling("look_at", {"url": "u"})), gpt("done"), look_at=look)
    running = asyncio.create_task(world.run("hi"))
    for _ in range(200):
        await asyncio.sleep(0)
    clock.advance(10)
    assert await running == "done"
    assert world.tool_results()[0]["result"] == "cannot look at u"
    assert browse.history[0].failure.code == "SYS_TIMEOUT"


@pytest.mark.requirement("V15")
async def test_when_no_mode_remains_the_model_gets_the_failure():
    """The last error is the tool's failure, as data; an event reports that no mode remains, and the loop goes on."""
    browse = rb.agent.Degradation("browse", "browser", "web_scrape", idempotent=True)

    def look(url):
        functions = {
            "browser": failing(*[LookupError("no browser")] * 9),
            "web_scrape": failing(*[LookupError("no text")] * 9),
        }
        return browse.call(functions, url)

    world = World(
        gpt(None, calling("look_at", {"url": "u"})), gpt("I could not look"), look_at=look
    )
    with rb.testing.record() as recorded:
        assert await world.run("hi") == "I could not look"
    assert "no text" in world.tool_results()[0]["message"]
    steps = [each.mode for each in recorded if isinstance(each, rb.events.ModeChanged)]
    assert (steps, type(recorded[-1])) == (["web_scrape", None], rb.events.ToolFailed)
