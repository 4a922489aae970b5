"""What is remembered of a server's lists: pages, cursors, hints, and what counts as a change."""

from __future__ import annotations

import pytest

from tests.adapters.sidecar.harness import tool
from tests.internals.adapters import Lists, cursor_of, hint_of, message


TOOLS = "tools/list"


def page(*names, following=None):
    """Return a page of a list of tools."""
    found = {"tools": [tool(name) for name in names]}
    return found if following is None else found | {"nextCursor": following}


def listed(*pages):
    """Return lists that have learnt these pages of tools, from the first on."""
    lists, cursor = Lists(), ""
    for one in pages:
        cursor = lists.learn(TOOLS, cursor, one)
    return lists


def test_pages_make_a_list_when_the_last_is_known():
    """Pages make a list when the last is known."""
    lists = Lists()
    assert lists.learn(TOOLS, "", page("a", following="1")) == "1"
    assert TOOLS not in lists.complete
    assert lists.learn(TOOLS, "1", page("b")) == ""
    assert TOOLS in lists.complete
    assert lists.names() == ["a", "b"]
    assert lists.page(TOOLS, "1") == page("b")
    assert lists.page(TOOLS, "2") is None


def test_a_last_page_without_those_before_it_is_no_list():
    """A last page without those before it is no list."""
    lists = Lists()
    assert lists.learn(TOOLS, "9", page("z")) == ""
    assert TOOLS not in lists.complete
    assert lists.names() == []
    assert lists.seen(TOOLS) is None


def test_another_first_page_begins_a_list_anew():
    """Another first page begins a list anew."""
    lists = listed(page("a", following="1"), page("b"))
    lists.learn(TOOLS, "", page("c", following="1"))
    assert lists.names() == ["c"]
    assert TOOLS not in lists.complete


def test_the_same_first_page_forgets_nothing():
    """The same first page forgets nothing."""
    lists = listed(page("a", following="1"), page("b"))
    lists.learn(TOOLS, "", page("a", following="1"))
    assert lists.names() == ["a", "b"]


def test_cursors_are_known_by_the_pages_that_gave_them():
    """Cursors are known by the pages that gave them."""
    lists = listed(page("a", following="1"), page("b", following="2"))
    assert lists.knows_cursor(TOOLS, "1")
    assert lists.knows_cursor(TOOLS, "2")
    assert not lists.knows_cursor(TOOLS, "3")
    assert not lists.knows_cursor("prompts/list", "1")


@pytest.mark.parametrize("cursor", ["1", ""])
def test_cursors_that_go_in_a_circle_end(cursor):
    """Cursors that go in a circle end."""
    lists = Lists()
    lists.learn(TOOLS, "", page("a", following="1"))
    lists.learn(TOOLS, "1", page("b", following=cursor))
    assert lists.names() == ["a", "b"]


@pytest.mark.parametrize(
    ("after", "differs"),
    [
        (page("a", "b"), False),
        (page("b", "a"), True),
        (page("a"), True),
        (page("a", "b", "c"), True),
        (page(), True),
        (page("a", "c"), True),
        (page("a", "b") | {"_meta": {"x": 1}, "ttlMs": 5}, False),
    ],
)
def test_a_whole_list_is_compared_whole(after, differs):
    """A whole list is compared whole."""
    before = listed(page("a", "b")).seen(TOOLS)
    assert listed(after).differs(TOOLS, before) is differs


@pytest.mark.parametrize(
    ("after", "differs"), [(page("a", "x"), False), (page("x"), True), (page(), True)]
)
def test_of_a_part_only_that_part_is_compared(after, differs):
    """Of a part only that part is compared."""
    before = listed(page("a", following="1")).seen(TOOLS)
    assert listed(after).differs(TOOLS, before) is differs


@pytest.mark.parametrize(
    "field", ["title", "description", "inputSchema", "outputSchema", "annotations"]
)
def test_what_a_model_sees_of_a_tool_counts(field):
    """What a model sees of a tool counts."""
    before = listed({"tools": [tool("a") | {field: {"x": 1}}]}).seen(TOOLS)
    assert listed({"tools": [tool("a") | {field: {"x": 2}}]}).differs(TOOLS, before)


def test_pages_cut_otherwise_are_the_same_list():
    """Pages cut otherwise are the same list."""
    before = listed(page("a", "b")).seen(TOOLS)
    assert not listed(page("a", following="1"), page("b")).differs(TOOLS, before)


def test_of_the_other_lists_every_field_counts():
    """Of the other lists every field counts."""
    lists, other = Lists(), Lists()
    lists.learn("resources/list", "", {"resources": [{"uri": "a", "size": 1}]})
    other.learn("resources/list", "", {"resources": [{"uri": "a", "size": 2}]})
    seen = lists.seen("resources/list")
    assert seen is not None
    assert other.differs("resources/list", seen)


def test_a_list_that_is_received_to_have_changed_is_not_whole_and_its_hints_stay_until_it_is_read():
    """A list that is said to have changed is not whole and its hints stay until it is read."""
    lists = Lists()
    lists.learn(TOOLS, "", {"tools": [tool("a", readOnlyHint=True)]})
    lists.forget(TOOLS)
    assert TOOLS not in lists.complete
    assert hint_of(lists.tool("a")) == "read"
    lists.learn(TOOLS, "", {"tools": [tool("a")]})
    assert hint_of(lists.tool("a")) == ""


@pytest.mark.parametrize(
    "result",
    [{}, {"tools": None}, {"tools": {}}, {"tools": [None, 1, []]}, {"tools": [], "nextCursor": 5}],
)
def test_odd_lists_harm_nothing(result):
    """Odd lists harm nothing."""
    lists = listed(result)
    assert lists.tool("a") is None
    assert TOOLS in lists.complete
    assert not lists.differs(TOOLS, lists.seen(TOOLS))


@pytest.mark.parametrize(
    ("annotations", "hint"),
    [
        ({}, ""),
        ({"readOnlyHint": True}, "read"),
        ({"readOnlyHint": True, "idempotentHint": True, "destructiveHint": True}, "read"),
        ({"idempotentHint": True}, "idempotent"),
        ({"readOnlyHint": "true", "idempotentHint": 1}, ""),
        ({"readOnlyHint": False, "idempotentHint": True}, "idempotent"),
        ({"destructiveHint": False, "openWorldHint": False}, ""),
    ],
)
def test_a_hint_is_true_and_nothing_like_it(annotations, hint):
    """A hint is true and nothing like it."""
    assert hint_of(tool("a", **annotations)) == hint
    assert hint_of({"annotations": [annotations]}) == hint_of(None) == ""


@pytest.mark.parametrize(
    ("params", "cursor"), [({}, ""), ({"cursor": "c"}, "c"), ({"cursor": 5}, ""), (None, "")]
)
def test_the_page_that_a_request_asks_for(params, cursor):
    """The page that a request asks for."""
    assert cursor_of(message.request(1, TOOLS, params)) == cursor
