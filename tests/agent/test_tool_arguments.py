"""What models write as arguments: read strictly, judged where the annotation is plain, all mistakes told at once."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional, Union

import pytest
from hypothesis import given
from hypothesis import strategies as st

import resilient_bridge as rb
from resilient_bridge.agent import Toolbox
from tests.internals.agent import Parameters


if TYPE_CHECKING:
    from nowhere import Unknown


def search(
    pattern: str,
    most: int = 10,
    *,
    share: float = 0.5,
    deep: bool = False,
    paths: list[str] | None = None,
    mode: Literal["read", "write", 3] = "read",
    extra: "dict[str, Any] | int | None" = None,  # noqa: UP037
) -> str:
    """A tool with a parameter of every plain sort."""
    return pattern


def old(
    a: Optional[int] = None,  # noqa: UP045
    b: Union[str, None] = None,  # noqa: UP007
    c: Annotated[int, "big"] = 1,
    d: str = None,  # noqa: RUF013
) -> None:
    """The older spellings."""


def strange(path: Path, unknown: Unknown, either: int | Path, whatever: object, bare=1) -> None:
    """What is not judged."""


def wrong(function, arguments):
    """The violations, by field."""
    return {
        each["field"]: (each["constraint"], each["received"])
        for each in Parameters(function, "").read(arguments).wrong
    }


@pytest.mark.parametrize(
    "arguments",
    [
        '{"pattern": "x"}',
        ' {"pattern": "x", "most": 1, "share": 2, "deep": true, "paths": ["a"], "mode": 3, "extra": {"a": [1]}}\n',
        {"pattern": "x", "paths": None, "extra": 5},
        {"pattern": "x", "share": 0.25, "mode": "write"},
    ],
)
def test_what_fits(arguments):
    """Every plain sort, from text or a mapping."""
    assert wrong(search, arguments) == {}


@pytest.mark.parametrize(
    ("field", "value", "constraint", "received"),
    [
        ("pattern", 5, "a string", "an integer"),
        ("pattern", None, "a string", "null"),
        ("most", "5", "an integer", "a string"),
        ("most", 5.0, "an integer", "a number"),
        ("most", True, "an integer", "true or false"),
        ("share", "x", "a number", "a string"),
        ("share", True, "a number", "true or false"),
        ("deep", 1, "true or false", "an integer"),
        ("paths", "a", "an array or null", "a string"),
        ("mode", "raed", "one of 'read', 'write', 3", "a string"),
        ("mode", 3.0, "one of 'read', 'write', 3", "a number"),
        ("extra", [1], "an object or an integer or null", "an array"),
        ("patern", 5, "no such argument; did you mean pattern?", "an integer"),
        ("zzz", 5, "no such argument", "an integer"),
    ],
)
def test_what_does_not_fit(field, value, constraint, received):
    """The field, what it wants, and the sort of what it got."""
    assert wrong(search, {"pattern": "x", field: value}) == {field: (constraint, received)}


def test_all_at_once():
    """Missing, wrong and unexpected arguments are told together."""
    assert set(wrong(search, {"most": "1", "deep": 0, "pttern": "x"})) == {
        "pattern",
        "most",
        "deep",
        "pttern",
    }


def test_older_spellings_and_a_default_that_does_not_fit_its_annotation():
    """Optional, Union and Annotated are read; a value that is the default is always right."""
    assert wrong(old, {"a": None, "b": "x", "c": 2, "d": None}) == {}
    assert set(wrong(old, {"a": "x", "b": 1, "c": "x", "d": 5})) == {"a", "b", "c", "d"}


def test_what_is_not_plain_is_not_judged():
    """Names that cannot be found, and objects of any kind, are the tool's own affair."""
    assert (
        wrong(strange, {"path": "x", "unknown": 2, "either": "x", "whatever": {}, "bare": []}) == {}
    )


@pytest.mark.parametrize(
    ("text", "received"),
    [
        ("[1]", "an array"),
        ('"x"', "a string"),
        ("null", "null"),
        ("{", "text that is none: Expecting property name"),
        ('{"pattern": "x"', "text that is none: Expecting"),
        ("{'pattern': 'x'}", "text that is none: Expecting property name"),
        ('{"pattern": "x", "pattern": "y"}', "text that is none: a key that is there twice"),
        ('{"pattern": NaN}', "text that is none: NaN is no number of JSON"),
        ('{"pattern": 1e999}', "text that is none: 1e999 is no number of JSON"),
        ('{"a":' * 200 + "1" + "}" * 200, "text that is nested too deep"),
        ("[" * 100_000, "text that is nested too deep"),
        ('{"most": ' + "9" * 5000 + "}", "text that is none: Exceeds the limit"),
    ],
    ids=lambda text: text[:20],
)
def test_text_that_is_no_object(text, received):
    """No JSON, no object, a key twice, no number, a pit: one violation, and nothing is guessed."""
    reported = wrong(search, text)
    assert set(reported) == {"arguments"}
    assert reported["arguments"][0] == "one JSON object"
    assert reported["arguments"][1].startswith(received)


@pytest.mark.parametrize("text", ["", "  \n"])
async def test_no_text_is_no_arguments(text):
    """Some models write nothing for a tool without parameters."""
    toolbox = Toolbox()
    toolbox.tool(lambda: "ok", name="now")
    assert (await toolbox.call("now", text)).value == "ok"


async def test_the_failure():
    """TOOL_ARGUMENTS_INVALID: nothing was called, the details list the fields, the model is told what to correct."""
    toolbox = Toolbox()
    called = []

    @toolbox.tool
    def grep(pattern: str, most: int = 1) -> None:
        called.append(1)

    outcome = await toolbox.call("grep", {"patern": "x", "most": "3"})
    failure = outcome.failure
    assert (failure.code, failure.executed, outcome.attempts) == (
        "TOOL_ARGUMENTS_INVALID",
        rb.errors.Executed.NO,
        0,
    )
    assert (outcome.type, outcome.recoverable, called) == ("validation", False, [])
    assert failure.details["violations"] == (
        {"field": "pattern", "constraint": "a string", "received": "nothing"},
        {"field": "most", "constraint": "an integer", "received": "a string"},
        {
            "field": "patern",
            "constraint": "no such argument; did you mean pattern?",
            "received": "a string",
        },
    )
    for line in ("pattern is missing: wanted a string", "most: wanted an integer, got a string"):
        assert line in json.loads(outcome.to_llm())["message"]
    assert "did you mean pattern?" in outcome.suggestion


async def test_very_many_mistakes_are_bounded():
    """Ten thousand unexpected arguments make a short failure."""
    toolbox = Toolbox()
    toolbox.tool(lambda: None, name="tool")
    outcome = await toolbox.call("tool", {f"x{number}": 1 for number in range(10_000)})
    assert len(outcome.failure.details["violations"]) <= 50
    assert len(outcome.to_llm()) < 5000


plain = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9)
)
anything = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=9,
)


@given(
    st.dictionaries(
        st.sampled_from(["pattern", "most", "share", "deep", "paths", "mode", "extra", "x", ""]),
        anything,
    )
)
def test_text_and_mapping_are_judged_alike(arguments):
    """Whatever a model sends: the same verdict from its JSON as from the mapping, and the arguments arrive unchanged."""
    parameters = Parameters(search, "")
    from_mapping, from_text = parameters.read(arguments), parameters.read(json.dumps(arguments))
    assert from_mapping.wrong == from_text.wrong
    if not from_mapping.wrong:
        passed_ = dict(zip(["pattern", "most"], from_text.args, strict=False)) | dict(
            from_text.kwargs
        )
        assert passed_ == arguments


@given(st.text())
def test_no_text_breaks_the_reader(text):
    """Any text is read, or refused with a violation."""
    read = Parameters(search, "").read(text)
    assert read.wrong or "pattern" in read.arguments


def test_a_callable_without_a_signature_is_refused():
    """What cannot be read cannot be held against anything."""
    with pytest.raises(rb.ConfigError, match="signature"):
        Toolbox().tool(min, name="min")


async def test_a_choice_is_not_taken_for_a_misspelt_name():
    """What stands in the words of a violation is no name that was meant: only its field can be one."""
    toolbox = rb.agent.Toolbox()

    @toolbox.tool
    async def look(path: str, mode: Literal["files", "paths"]) -> None:
        raise AssertionError

    outcome = await toolbox.call("look", {"path": "p", "mode": "x"})
    assert "did you mean" not in outcome.suggestion
    outcome = await toolbox.call("look", {"pth": "p", "mode": "files"})
    assert "pth: no such argument; did you mean path?" in outcome.suggestion


# ---- what a provider's client can send ------------------------------------------------------------------------------


def test_a01_a_schema_is_json_whatever_the_defaults_are():
    """A default that JSON has no number for is left out; the parameter stays optional. It is one for strict JSON, nested too."""

    @dataclasses.dataclass
    class Area:
        width: float = math.inf
        height: float = 1.0

    toolbox = rb.agent.Toolbox()

    @toolbox.tool
    def paint(
        most: float = math.inf,
        least: float = -math.inf,
        odd: float = math.nan,
        near: float = 0.5,
        area: Area | None = None,
    ) -> None:
        """Paint."""

    (entry,) = toolbox.schema()
    parameters = json.loads(json.dumps(entry, allow_nan=False))["parameters"]
    assert parameters["required"] == []
    assert [name for name, each in parameters["properties"].items() if "default" in each] == [
        "near",
        "area",
    ]
    assert asyncio.run(toolbox.call("paint", {})).ok


async def test_x04_an_omitted_positional_only_parameter_gets_its_default():
    """`b` can only be given behind `a`, so the default of `a` is passed."""
    toolbox = Toolbox()

    @toolbox.tool
    def add(a: int = 1, b: int = 2, /, *, c: int = 0) -> list[int]:
        """Three numbers."""
        return [a, b, c]

    assert (await toolbox.call("add", {"b": 3})).value == [1, 3, 0]
    assert (await toolbox.call("add", {"a": 3, "c": 1})).value == [3, 2, 1]
