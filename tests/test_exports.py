"""What is exported is what is documented, and nothing else is public."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

import resilient_bridge as rb


ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "resilient_bridge"
ROOMS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))


def _documented() -> list[str]:
    """The names in the first column of the tables of docs/reference/api.md."""
    return re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/reference/api.md").read_text(), re.MULTILINE)


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
    """docs/reference/api.md has one row per public name, and no row without a name."""
    assert sorted(_documented()) == rb.__all__


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


def test_dir_lists_names_that_are_not_loaded_yet():
    """`dir()` and so completion know every public name."""
    assert set(rb.__all__) <= set(dir(rb))


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_states_its_names(room):
    """Each room's `__init__` has an `__all__` of names that it really has."""
    module = import_module(f"resilient_bridge.{room}")
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
