"""What is exported is what is documented, and nothing else is public."""

from __future__ import annotations

import ast
import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import resilient_bridge as rb


ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "resilient_bridge"
ROOMS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))


def _documented() -> dict[str, str]:
    """Name and link target of each row of the tables of docs/reference/api.md."""
    rows = re.findall(
        r"^\| \[`([\w.]+)`\]\(([^)]+)\) \|", (ROOT / "docs/reference/api.md").read_text(), re.MULTILINE
    )
    assert len(rows) == len(dict(rows))
    return dict(rows)


def _named(name: str) -> object:
    value: object = rb
    for part in name.split("."):
        value = getattr(value, part)
    return value


def test_the_lazy_table_holds_exactly_the_public_names():
    """`__all__` and the table that loads names agree, and `__all__` is sorted as an editor shows it."""
    assert set(rb.__all__) == set(rb._HOMES)
    assert rb.__all__ == sorted(rb.__all__)


def test_type_checkers_see_exactly_the_public_names():
    """The names imported under TYPE_CHECKING are `__all__`: what an editor offers exists, from the place that it states."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    guard = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname: f"={alias.name}" if node.module is None else node.module
        for node in guard.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    seen["events"] = (
        "=telemetry.events"  # `from .telemetry import events` imports a module, not a name of the room
    )
    assert seen == rb._HOMES


def test_every_public_name_is_documented_once():
    """docs/reference/api.md has one row per public name, those of `testing` included, and no row without a name."""
    wanted = {*rb.__all__, *(f"testing.{name}" for name in rb.testing.__all__)}
    assert _documented().keys() == wanted


@pytest.mark.parametrize("name", _documented())
def test_every_row_leads_to_the_source_of_its_name(name):
    """The link of a row is the file that defines the name."""
    value = _named(name)
    module = import_module(value.__name__ if inspect.ismodule(value) else value.__module__)
    assert (ROOT / "docs/reference" / _documented()[name]).resolve() == Path(module.__file__)


def test_the_presets_are_documented():
    """Each ready policy stands in the row of `presets`."""
    (row,) = [
        line for line in (ROOT / "docs/reference/api.md").read_text().splitlines() if "[`presets`]" in line
    ]
    assert [name for name in rb.presets.__all__ if name != "BridgePolicy" and f"`{name}`" not in row] == []


@pytest.mark.parametrize("name", rb.__all__)
def test_every_public_name_loads(name):
    """Each name of `__all__` can be had, is kept after the first time, and what it names has a docstring."""
    value = getattr(rb, name)
    assert vars(rb)[name] is value
    assert value.__doc__


def test_an_unknown_name_is_an_attribute_error():
    """A misspelt name fails as on any module."""
    with pytest.raises(AttributeError, match="no attribute 'BridgeClinet'"):
        rb.BridgeClinet  # noqa: B018 - the look-up is the test


def test_an_unknown_name_for_tests_is_an_attribute_error():
    """The same for `rb.testing`."""
    with pytest.raises(AttributeError, match="no attribute 'BridgeSever'"):
        rb.testing.BridgeSever  # noqa: B018 - the look-up is the test


def test_dir_lists_names_that_are_not_loaded_yet():
    """`dir()` and so completion know every public name."""
    assert set(rb.__all__) <= set(dir(rb))
    assert set(rb.testing.__all__) <= set(dir(rb.testing))


@pytest.mark.parametrize("name", rb.testing.__all__)
def test_every_name_for_tests_loads(name):
    """The same for `rb.testing`, whose lazy table holds exactly its names."""
    assert set(rb.testing.__all__) == set(rb.testing._HOMES)
    assert getattr(rb.testing, name).__doc__


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_states_its_names(room):
    """Each room's `__init__` has an `__all__` of names that it really has."""
    module = import_module(f"resilient_bridge.{room}")
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
