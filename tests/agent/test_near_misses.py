"""Near misses: what counts as spelled alike, and how little of a large tree is looked at."""

from __future__ import annotations

import os

import pytest

from tests.internals.agent import SearchAllowance, close_names, near_paths, status_of


def _tree(root, *paths):
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()


def _near(root, missing, **options):
    found = near_paths(str(root / missing), [str(root)], SearchAllowance(**options))
    return [os.path.relpath(path, root) for path in found]


@pytest.mark.parametrize(
    ("wanted", "names", "found"),
    [
        ("gerp", ["grep", "read_file", "gap"], ("grep",)),
        ("gti", ["gio", "git", "tic", "ls"], ("git",)),
        ("utlis.py", ["utils.py", "utils.txt", "tests.py"], ("utils.py",)),
        ("README", ["readme.md", "LICENSE"], ("readme.md",)),
        ("grep", ["grep"], ()),
        ("", ["a"], ()),
        ("x" * 300, ["x" * 299], ()),
    ],
)
def test_names_spelled_alike_are_found_likest_first(wanted, names, found):
    """Swapped letters, another case, another extension; never the name itself, nothing for what no name is like."""
    assert close_names(wanted, names) == found


@pytest.mark.parametrize(
    ("missing", "found"),
    [
        ("config.json", ["config/app.json"]),
        ("app.json", ["config/app.json"]),
        ("confg/app.json", ["config/app.json"]),
        ("src/utlis.py", ["src/deep/utils.py"]),
        ("nothing-like-it.bin", []),
        ("confg", ["config"]),
        (".evn", [".env"]),
        ("four.txt", []),
    ],
)
@pytest.mark.requirement("C4")
def test_paths_that_exist_and_resemble_the_missing_one(tmp_path, missing, found):
    """A name elsewhere, a name or a directory misspelled; three levels deep, hidden ones only for a hidden name."""
    _tree(
        tmp_path,
        "config/app.json",
        "src/deep/utils.py",
        "a/b/c/four.txt",
        ".env",
        ".git/config.json",
    )
    _tree(tmp_path, "node_modules/config.json")
    assert _near(tmp_path, missing) == found


def test_no_link_is_followed(tmp_path):
    """Neither a loop nor a link to elsewhere is entered, and a link to nothing is not suggested."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    _tree(outside, "settings.json")
    inside.mkdir()
    (inside / "elsewhere").symlink_to(outside)
    (inside / "loop").symlink_to(inside)
    (inside / "settings.jsn").symlink_to(tmp_path / "nothing")
    assert _near(inside, "settings.json") == []


def test_a_large_directory_is_not_read_to_its_end(tmp_path):
    """At most 5,000 entries are looked at, for all the roots together, each with its share."""
    for number in range(2_000):
        os.close(os.open(f"{tmp_path}/{number}", os.O_CREAT))
    (tmp_path / "below").mkdir()
    look = SearchAllowance(seconds=60)
    near_paths(str(tmp_path / "x.json"), [str(tmp_path), str(tmp_path / "below"), "/"], look)
    assert look.seen == 5_000
    assert len(list(SearchAllowance(entries=100, seconds=60).entries(str(tmp_path)))) == 100


def test_a_slow_directory_is_not_read_to_its_end(tmp_path):
    """When the time is up, no more than another 128 entries are looked at."""
    _tree(tmp_path, *map(str, range(1_000)))
    instants = iter([0.0, 0.1, 0.3])
    look = SearchAllowance(clock=lambda: next(instants))
    assert _walked(look, tmp_path) == 255
    assert look.is_over


def _walked(look, root):
    return sum(1 for _ in look.walk(str(root), most=10_000))


def test_every_root_gets_its_share(tmp_path):
    """A large first root does not hide what lies in the second."""
    _tree(tmp_path, *(f"large/{number}" for number in range(200)), "small/config.json")
    roots = [str(tmp_path / "large"), str(tmp_path / "small")]
    found = near_paths(str(tmp_path / "large/config.json"), roots, SearchAllowance(entries=100))
    assert found == (str(tmp_path / "small/config.json"),)


def test_what_cannot_be_read_is_passed_over(tmp_path):
    """A directory that is gone, a file, a NUL in the name."""
    _tree(tmp_path, "file")
    for path in (tmp_path / "gone", tmp_path / "file", "a\0b"):
        assert list(SearchAllowance().entries(str(path))) == []
    assert status_of("a\0b") is None


def test_x04_what_is_nearly_as_like_it_as_the_best_is_named_too(tmp_path):
    """A letter more or less beside the right name is named behind it; what is only somewhat alike is not."""
    _tree(tmp_path, "settings.json", "settings2.json", "sittings2.json")
    assert _near(tmp_path, "settings.jsn") == ["settings.json", "settings2.json"]
