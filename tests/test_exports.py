"""What is exported is what is documented, and nothing else is public."""

from __future__ import annotations

import ast
import inspect
import pydoc
import re
from importlib import import_module
from pathlib import Path

import attrs
import pytest

import resilient_bridge as rb
from tests.reference_names import DOORS, indexed, names
from tests.rows import each_row


ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "resilient_bridge"
ROOMS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))


def _documented() -> dict[str, str]:
    """Name and link target of each row of the tables of docs/reference/api.md."""
    rows = re.findall(
        r"^\| \[`([\w.]+)`\]\(([^)]+)\) \|",
        (ROOT / "docs/reference/api.md").read_text(),
        re.MULTILINE,
    )
    assert len(rows) == len(dict(rows))
    return dict(rows)


def _named(name: str) -> object:
    value: object = rb
    for part in name.split("."):
        value = getattr(value, part)
    return value


def _listed(room: str) -> dict[str, str]:
    """The names that a room offers, with their homes, from its tables."""
    module = import_module(f"resilient_bridge{room}")
    tables = (module._NAMES, getattr(module, "_INSIDE", {}))
    return {
        name: home for table in tables for home, names in table.items() for name in names.split()
    }


def _file(room: str) -> Path:
    """The file that has the table of a room or door."""
    home = PACKAGE / room[1:].replace(".", "/")
    inside = home / "__init__.py"
    return inside if inside.exists() else home.with_suffix(".py")


LAZY = [
    "",
    *(
        f".{name}"
        for name in sorted({*ROOMS, *DOORS})
        if "_NAMES = {" in _file(f".{name}").read_text()
    ),
    ".calls.ports",
]


@each_row("room", LAZY)
def test_type_checkers_see_exactly_the_names_of_a_room(room):
    """The names imported under TYPE_CHECKING are those of the table: what an editor offers exists, from the place that it states."""
    file = _file(room)
    tree = ast.parse(file.read_text())
    up = file.name != "__init__.py"  # a table names its modules as a package does, from inside
    guard = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname: "." * (node.level - 1 + up) + node.module if node.module else f"={alias.name}"
        for node in guard.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname  # no alias: the room itself uses it
    }
    listed = _listed(room)
    for name, home in seen.items():
        if listed.get(name) == f"={home}.{name}":
            seen[name] = listed[name]  # `from ..exporters import otel` imports a module
    assert seen == listed


@each_row("room", LAZY)
def test_a_room_lists_its_public_names_in_order(room):
    """`__all__` is sorted, and `dir()` knows it before anything is loaded; what only other rooms use is not in it."""
    module = import_module(f"resilient_bridge{room}")
    assert module.__all__ == sorted(module.__all__)
    assert set(module.__all__) <= set(_listed(room)) | set(vars(module))
    if hasattr(module, "_INSIDE"):
        assert not set(module.__all__) & {
            name for names in module._INSIDE.values() for name in names.split()
        }


def test_no_public_name_is_that_of_a_module_beside_it():
    """Importing a module puts it into its package under its own name, in the place of the function: `rb.links.stdio` would be no function."""
    rooms = {room: _file(room).parent for room in LAZY if _file(room).name == "__init__.py"}
    hidden = [
        f"{room}.{name}"
        for room, folder in rooms.items()
        for name, home in _listed(room).items()
        if not home.startswith("=") and name in {path.stem for path in folder.iterdir()}
    ]
    assert hidden == []


def test_every_public_name_is_listed_once():
    """At the top level or by one door: the reader of an import knows where it is from."""
    listed = [
        name.rpartition(".")[2]
        for name in names()
        if not name.startswith(("dialects.", "presets."))
    ]
    assert sorted(listed) == sorted(set(listed))
    assert len(rb.__all__) <= 48


def test_the_names_of_the_doors_are_only_added_to():
    """The golden file: what was published stays."""
    golden = (ROOT / "tests/public_names.txt").read_text().split()
    assert [name for name in golden if name not in names()] == []
    assert sorted(golden) == sorted(names()), "`python -m tests.pages names` adds them"


def test_every_public_name_is_documented_once():
    """docs/reference/api.md has one row per public name; those of three doors stand on their own pages."""
    assert set(_documented()) == set(indexed())


@each_row("name", _documented())
def test_every_row_leads_to_the_source_of_its_name(name):
    """The link of a row is the file that defines the name."""
    value = _named(name)
    module = import_module(value.__name__ if inspect.ismodule(value) else value.__module__)
    assert (ROOT / "docs/reference" / _documented()[name]).resolve() == Path(module.__file__)


@pytest.mark.parametrize("space", ["presets", "dialects"])
def test_the_values_of_a_namespace_are_documented(space):
    """Each ready policy stands in the row of `presets`, each dialect in that of `dialects`."""
    lines = (ROOT / "docs/reference/api.md").read_text().splitlines()
    (row,) = [line for line in lines if f"[`{space}`]" in line]
    names = getattr(rb, space).__all__
    assert [name for name in names if f"`{name}`" not in row] == []


@each_row("name", rb.__all__)
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


@each_row("name", rb.testing.__all__)
def test_every_name_for_tests_loads(name):
    """The same for `rb.testing`."""
    assert getattr(rb.testing, name).__doc__


@each_row("room", sorted({*ROOMS, *DOORS}))
def test_every_room_states_its_names(room):
    """Each room and door has an `__all__` of names that it really has."""
    module = import_module(f"resilient_bridge.{room}")
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


def test_u03_help_begins_with_what_to_do_first():
    """Ten lines and an example, before all that is generated."""
    begins = rb.__doc__.strip().splitlines()
    assert len(begins) <= 10
    assert "import resilient_bridge as rb" in rb.__doc__
    assert pydoc.plain(pydoc.render_doc(rb)).index(begins[0]) < 200


def test_help_of_the_dialects_begins_with_each_name_and_the_fields_of_each_fact():
    """Within a screen or so, before the classes with all that is generated for them."""
    begins = pydoc.plain(pydoc.render_doc(rb.dialects)).partition("\nCLASSES")[0]
    assert len(begins.splitlines()) < 50
    for name in rb.dialects.__all__:
        assert f"`{name}" in begins, name
        value = getattr(rb.dialects, name)
        if isinstance(value, type) and name not in {"End", "Positions"}:
            assert f"`{name}({', '.join(attrs.fields_dict(value))})`" in begins
