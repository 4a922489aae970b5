"""What the annotations of a tool say: checked before it is called, converted for it, and described for the model; each attempt has its own."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import enum
import json
import pathlib
import subprocess
import sys
import typing
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel, Field, field_validator

import resilient_bridge as rb


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Query(BaseModel):
    text: str
    most: int = Field(10, ge=1)


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Options(typing.TypedDict):
    deep: bool
    note: typing.NotRequired[str]


class Pin(BaseModel):
    code: str

    @field_validator("code")
    @classmethod
    def _check(cls, code: str) -> str:
        raise ValueError(f"{code} is no good api_key=sk-abcdefgh12345678")


def box(function):
    """A toolbox with that tool, called `tool`, and what it was called with."""
    toolbox, seen = rb.agent.Toolbox(), []

    def tool(*args, **kwargs):
        seen.append((*args, *kwargs.values()))

    tool.__signature__ = __import__("inspect").signature(function)
    tool.__annotations__ = function.__annotations__
    tool.__wrapped__ = function
    toolbox.tool(name="tool")(tool)
    return toolbox, seen


def takes(annotation):
    """A function with one parameter `a` of this annotation."""

    def function(a): ...

    function.__annotations__["a"] = annotation
    return function


GOOD = [
    (Color, "red", Color.RED),
    (Query, {"text": "x"}, Query(text="x", most=10)),
    (Point, {"x": 1}, Point(1)),
    (Options, {"deep": True}, {"deep": True}),
    (list[Options], [{"deep": True, "note": "n"}], [{"deep": True, "note": "n"}]),
    (pathlib.Path, "a/b", pathlib.Path("a/b")),
    (Optional[Color], None, None),  # noqa: UP045
    (Query | Point, {"x": 2}, Point(2)),
    (Annotated[int, Field(ge=1)], 1, 1),
    (dt.date, "2026-02-16", dt.date(2026, 2, 16)),
    (tuple[int, str], [1, "a"], (1, "a")),
    (dict[str, list[int]], {"a": [1]}, {"a": [1]}),
    (Literal["a", 1], 1, 1),
]
BAD = [
    (Color, "green", ["a"]),
    (Color, 5, ["a"]),
    (Query, {"most": 0}, ["a.text", "a.most"]),
    (Query, "x", ["a"]),
    (Point, {"a": 1}, ["a.x"]),
    (Options, {"deep": "yes", "note": 1}, ["a.deep", "a.note"]),
    (pathlib.Path, 5, ["a"]),
    (Annotated[int, Field(ge=1)], -5, ["a"]),
    (Annotated[int, Field(ge=1)], "5", ["a"]),
    (list[int], [1, "2", 3, None], ["a[1]", "a[3]"]),
    (dict[str, int], {"a": "b"}, ["a.a"]),
    (Optional[Point], {"x": "1"}, ["a.x"]),  # noqa: UP045
    (dt.date, "soon", ["a"]),
]


@pytest.mark.parametrize("as_text", [True, False])
@pytest.mark.parametrize(("annotation", "value", "wanted"), GOOD, ids=lambda value: str(value)[:25])
async def test_j03_what_fits_arrives_as_the_annotation_says(annotation, value, wanted, as_text):
    """Enum, model, dataclass, TypedDict, path, constraint, union: from JSON text and from a mapping."""
    toolbox, seen = box(takes(annotation))
    outcome = await toolbox.call("tool", json.dumps({"a": value}) if as_text else {"a": value})
    assert outcome.ok, outcome.to_llm()
    assert seen == [(wanted,)]
    assert type(seen[0][0]) is type(wanted)


@pytest.mark.requirement("V6")
@pytest.mark.parametrize("as_text", [True, False])
@pytest.mark.parametrize(("annotation", "value", "fields"), BAD, ids=lambda value: str(value)[:25])
async def test_j03_what_does_not_fit_is_named_and_nothing_is_called(
    annotation, value, fields, as_text
):
    """TOOL_ARGUMENTS_INVALID, executed no, every violation at once, and no value of it in the message."""
    toolbox, seen = box(takes(annotation))
    outcome = await toolbox.call("tool", json.dumps({"a": value}) if as_text else {"a": value})
    assert (outcome.failure.code, outcome.failure.executed, outcome.type) == (
        "TOOL_ARGUMENTS_INVALID", rb.errors.Executed.NO, "validation",
    )  # fmt: skip
    assert [each["field"] for each in outcome.failure.details["violations"]] == fields
    assert (seen, outcome.attempts) == ([], 0)
    assert json.loads(outcome.to_llm())["executed"] == "no"


async def test_j03_all_arguments_are_reported_at_once_in_words_for_a_model():
    """Plain ones and others, missing ones and unknown ones."""

    def function(c: Color, q: Query, n: int, *, path: pathlib.Path = pathlib.Path()): ...

    toolbox, _ = box(function)
    outcome = await toolbox.call("tool", {"c": "green", "q": {"text": 5}, "path": 1, "pth": 2})
    for words in (
        "c: wanted 'red' or 'blue', got a string",
        "q.text: wanted a valid string, got an integer",
        "n is missing: wanted an integer",
        "pth: no such argument; did you mean path?",
    ):
        assert words in outcome.message


async def test_j03_what_a_validator_says_holds_no_secret():
    """Its own words are shown, without what looks like a secret in them."""
    toolbox, _ = box(takes(Pin))
    outcome = await toolbox.call("tool", {"a": {"code": "x"}})
    assert outcome.failure.details["violations"][0]["field"] == "a.code"
    assert "sk-abcdefgh12345678" not in outcome.to_llm()


async def test_j03_an_object_that_is_one_already_is_taken_as_it_is():
    """A program that calls with objects of Python: a member, a path, a model."""
    toolbox, seen = rb.agent.Toolbox(), []

    @toolbox.tool
    def look(c: Color, p: pathlib.Path, q: Query) -> None:
        seen.append((c, p, q))

    arguments = {"c": Color.RED, "p": pathlib.Path("x"), "q": Query(text="x")}
    assert (await toolbox.call("look", arguments)).ok
    assert seen == [tuple(arguments.values())]


async def test_j03_annotations_that_are_texts_and_local_are_found():
    """`from __future__ import annotations`, in a function: as tests and factories have it."""

    class Size(enum.Enum):
        BIG = 1

    toolbox, seen = rb.agent.Toolbox(), []

    @toolbox.tool
    async def grow(size: Size, **more: int) -> None:
        seen.append((size, more))

    assert (await toolbox.call("grow", {"size": 1, "by": 2})).ok
    assert seen == [(Size.BIG, {"by": 2})]
    wrong = (await toolbox.call("grow", {"size": 2, "by": "x"})).failure.details["violations"]
    assert [each["field"] for each in wrong] == ["size", "by"]


async def test_j03_what_cannot_be_judged_is_the_tools_own_affair():
    """A class that pydantic does not know."""

    class Link: ...

    toolbox, seen = box(takes(Link))
    assert (await toolbox.call("tool", {"a": "anything"})).ok
    assert seen == [("anything",)]


def test_j03_pydantic_is_loaded_when_it_is_needed_and_only_then():
    """Plain annotations never load it; where it cannot be imported, the plain sorts are checked as before."""
    program = """
import asyncio, enum, json, sys
import resilient_bridge as rb
class Color(enum.Enum): RED = "red"
box = rb.agent.Toolbox()
@box.tool
def plain(a: int, b: "list | None" = None): return a
assert asyncio.run(box.call("plain", {"a": 1})).ok and box.schema()
assert "pydantic" not in sys.modules
sys.modules["pydantic"] = None
@box.tool
def paint(c: Color, n: list[int]): return c
assert asyncio.run(box.call("paint", {"c": "red", "n": [1]})).value == "red"
assert not asyncio.run(box.call("paint", {"c": "red", "n": 1})).ok
assert box.schema()[1]["parameters"]["properties"] == {"c": {}, "n": {"type": "array"}}
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


# ---- the schema ------------------------------------------------------------------------------------------------------


def test_j03_the_schema_of_all_tools():
    """Name, docstring and parameters: what a provider's API takes, models as definitions."""
    toolbox = rb.agent.Toolbox()

    @toolbox.tool
    def search(
        query: Query, color: Color = Color.RED, most: int = 5, paths: list[str] | None = None
    ) -> None:
        """Search for something.

        As far as it goes.
        """

    @toolbox.command
    def bash(script: str, mode: Literal["a", "b"] = "a") -> list[str]:
        return [script, mode]

    first, second = toolbox.schema()
    assert (first["name"], first["description"]) == (
        "search",
        "Search for something.\n\nAs far as it goes.",
    )
    parameters = first["parameters"]
    assert parameters["required"] == ["query"]
    assert parameters["properties"]["query"] == {"$ref": "#/$defs/Query"}
    assert parameters["$defs"]["Query"]["required"] == ["text"]
    assert parameters["$defs"]["Color"]["enum"] == ["red", "blue"]
    assert parameters["properties"]["most"] == {"type": "integer", "default": 5}
    assert parameters["additionalProperties"] is False
    assert second["parameters"] == {
        "type": "object",
        "properties": {"script": {"type": "string"}, "mode": {"enum": ["a", "b"], "default": "a"}},
        "required": ["script"],
        "additionalProperties": False,
    }
    json.dumps([first, second])


def test_j03_what_fits_the_schema_fits_the_tool():
    """The schema is the check's own: jsonschema agrees with it about what is good and bad."""
    jsonschema = pytest.importorskip("jsonschema")
    for annotation, value, *_ in (*GOOD, *BAD):
        toolbox, _ = box(takes(annotation))
        schema = toolbox.schema()[0]["parameters"]
        fits = asyncio.run(toolbox.call("tool", {"a": value})).ok
        assert jsonschema.Draft202012Validator(schema).is_valid({"a": value}) or not fits, (
            annotation
        )


# ---- each attempt has its own ------------------------------------------------------------------------------------------


@pytest.mark.requirement("C2")
@pytest.mark.parametrize("as_text", [True, False])
@pytest.mark.parametrize("form", ["sync", "async"])
async def test_a10_each_attempt_has_the_arguments_that_came(form, as_text):
    """What an attempt does to its lists, objects and models does not reach the next one, nor the caller."""
    seen, toolbox = [], rb.agent.Toolbox(rb.presets.ccsetup)

    def act(xs: list, q: Query, more: dict[str, Any]) -> None:
        seen.append((list(xs), q.text, dict(more)))
        xs.append("mutated")
        q.text = "mutated"
        more.clear()
        raise ConnectionResetError

    async def later(xs: list, q: Query, more: dict[str, Any]) -> None:
        act(xs, q, more)

    toolbox.tool(idempotent=True, name="op")(act if form == "sync" else later)
    arguments = {"xs": [1], "q": {"text": "t"}, "more": {"a": [1]}}
    with rb.testing.virtual_time():
        await toolbox.call("op", json.dumps(arguments) if as_text else arguments)
    assert seen == [([1], "t", {"a": [1]})] * 4
    assert arguments == {"xs": [1], "q": {"text": "t"}, "more": {"a": [1]}}


async def test_a10_a_commands_words_are_made_of_the_arguments_that_came():
    """Each attempt asks its function anew."""
    seen, toolbox = [], rb.agent.Toolbox(rb.presets.ccsetup)

    @toolbox.command(idempotent=True)
    def run(words: list) -> list[str]:
        seen.append(list(words))
        words.insert(0, "-c")
        return [sys.executable, *words]

    with rb.testing.virtual_time():
        await toolbox.call("run", {"words": ["import sys; sys.exit('ECONNRESET')"]})
    assert len(seen) > 1
    assert all(one == seen[0] for one in seen)


async def test_a10_a_fallback_has_the_arguments_that_came_too():
    """The rung after the repeats is called with what the model wrote."""
    seen = []
    policy = rb.Policy(rb.Fallback(lambda xs: seen.append(list(xs))), rb.Retry(attempts=2))
    toolbox = rb.agent.Toolbox(policy)

    @toolbox.tool(idempotent=True)
    async def op(xs: list) -> None:
        xs.append("mutated")
        raise ConnectionResetError

    with rb.testing.virtual_time():
        assert (await toolbox.call("op", {"xs": [1]})).ok
    assert seen == [[1]]


async def test_a10_a_tool_that_calls_itself_directly_passes_its_own():
    """Only what `Toolbox.call` has read is read anew."""
    toolbox, seen = rb.agent.Toolbox(), []

    @toolbox.tool
    async def count(xs: list) -> None:
        seen.append(list(xs))
        if len(xs) < 3:
            await count([*xs, len(xs)])

    assert (await toolbox.call("count", {"xs": [0]})).ok
    assert seen == [[0], [0, 1], [0, 1, 2]]


@pytest.mark.requirement("C3")
async def test_a10_the_arguments_in_the_record_are_those_of_the_first_attempt(tmp_path):
    """A tool that changes its arguments changes neither the record of its failure nor what the phase called with."""
    toolbox = rb.agent.Toolbox(rb.presets.ccsetup)

    @toolbox.tool(idempotent=True)
    async def op(xs: list) -> None:
        xs.append("mutated")
        raise ConnectionResetError

    flow = rb.agent.Workflow(tmp_path / "state.json", tools=toolbox)

    @flow.phase
    async def only(phase):
        await phase.call("op", {"xs": [1]})

    with rb.testing.virtual_time():
        report = await flow.run()
    assert report.errors[0]["arguments"] == {"xs": [1]}
