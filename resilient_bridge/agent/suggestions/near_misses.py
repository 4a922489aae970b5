"""Names and paths that are spelled like one that does not exist ("did you mean").

Rule: the search is bounded in directory entries and in seconds, whatever the file system holds.
Links are never followed, and a directory that cannot be read is skipped.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from difflib import SequenceMatcher
from functools import cache
from itertools import islice, takewhile
from typing import Final, NamedTuple

from ...world import REAL
from .existing_paths import status_of


_MOST_ENTRIES: Final = 5_000
_MOST_SECONDS: Final = 0.2
# entries between two checks of the clock, so that a small tree is always read whole
_CLOCK_EVERY: Final = 128
_LEVELS: Final = 3
_SEP: Final = os.sep
_LONGEST: Final = 255  # characters of a name: the matcher takes time quadratic in them
_ALIKE: Final = 0.66
_ALIKE_PATH: Final = 0.7
_WORTH_NAMING: Final = 0.12  # less similar to the wanted name than the best, at most
_MOST_NEAR: Final = 3
_OTHER_ENDING: Final = 0.15  # what another extension costs
_SWAPPED: Final = 0.8  # the same letters in another order: the commonest slip in a short name
_PASSED_OVER: Final = frozenset({"node_modules", "__pycache__", "lost+found"})
_NOT_FILES: Final = frozenset({"/proc", "/sys", "/dev"})


class SearchAllowance:
    """How much of the file system may still be searched for one failure.

    `seen` counts directory entries.
    """

    def __init__(
        self,
        *,
        entries: int = _MOST_ENTRIES,
        seconds: float = _MOST_SECONDS,
        clock: Callable[[], float] = REAL.monotonic,
    ) -> None:
        self.seen = 0
        self._entries = entries
        self._clock = clock
        self._until = clock() + seconds

    @property
    def is_over(self) -> bool:
        is_due = self.seen < self._entries and self.seen % _CLOCK_EVERY == _CLOCK_EVERY - 1
        if is_due and self._clock() >= self._until:
            self._entries = 0
        return self.seen >= self._entries

    @property
    def remaining(self) -> int:
        return max(0, self._entries - self.seen)

    def entries(self, directory: str) -> Iterator[os.DirEntry[str]]:
        """Yield the entries of a directory until the search has to end; none if it cannot be read."""
        try:
            with os.scandir(directory) as found:
                for entry in found:
                    if self.is_over:
                        return
                    self.seen += 1
                    yield entry
        except (OSError, ValueError):
            return

    def walk(
        self, root: str, *, most: int, is_hidden_wanted: bool = False
    ) -> Iterator[os.DirEntry[str]]:
        """Yield at most `most` entries below a directory, three levels deep, the nearest first.

        Directories are visited by name; the entries of one come in the order of the system.
        """
        last = self.seen + most
        waiting = deque([(root, 1)])
        while waiting:
            directory, level = waiting.popleft()
            below: list[str] = []
            for entry in self.entries(directory):
                is_hidden = entry.name.startswith(".")
                if not is_hidden or is_hidden_wanted:
                    yield entry
                if (
                    level < _LEVELS
                    and not is_hidden
                    and entry.name not in _PASSED_OVER
                    and _is_own(entry)
                ):
                    below.append(entry.path)
                if self.seen >= last:
                    return
            waiting.extend((path, level + 1) for path in sorted(below))


def close_names(wanted: str, names: Iterable[str], *, most: int = 3) -> tuple[str, ...]:
    """Return the names that are spelled like `wanted`, the most similar first.

    `wanted` itself is not among them.
    """
    matcher = _NameMatcher(wanted)
    scored = {name: matcher.likeness(name) for name in names if name != wanted}
    least = max(_ALIKE, max(scored.values(), default=0) - _WORTH_NAMING)
    close = [name for name, score in scored.items() if score >= least]
    return tuple(
        sorted(close, key=lambda name: (-scored[name], abs(len(name) - len(wanted)), name))[:most]
    )


class _Near(NamedTuple):
    """A path and its distance from the wanted one; the nearest sorts first."""

    distance: float
    far_path: float
    depth: int
    path: str


def near_paths(
    missing: str, roots: Iterable[str], look: SearchAllowance, *, apart_from: Collection[str] = ()
) -> tuple[str, ...]:
    """Return existing paths below the roots that resemble `missing`, the most similar first.

    `missing` is an absolute path. Similar are a file of the same name elsewhere, a name spelled
    alike, and a path spelled alike (config.json, config/app.json). If `missing` has an extension,
    only files count.
    """
    starts = list(dict.fromkeys(roots))
    found: set[_Near] = set()
    for number, root in enumerate(starts):
        share = look.remaining // (len(starts) - number)
        found.update(
            near for near in _near(missing, root, look, share) if near.path not in apart_from
        )
    ranked = sorted(found)
    close = takewhile(lambda near: near.distance <= ranked[0].distance + _WORTH_NAMING, ranked)
    return tuple(
        islice((near.path for near in close if status_of(near.path) is not None), _MOST_NEAR)
    )


def _near(missing: str, root: str, look: SearchAllowance, share: int) -> Iterator[_Near]:
    if share <= 0:
        return
    name = missing.rpartition(_SEP)[2]
    matcher = cache(_NameMatcher)  # one for each text that paths are compared with
    parts = missing.split(_SEP)

    @cache  # one for each number of shared directories
    def tail(shared: int) -> str:
        return _SEP.join(parts[shared:])

    has_ending = bool(_split(name)[1])
    for entry in look.walk(root, most=share, is_hidden_wanted=name.startswith(".")):
        if entry.path in _NOT_FILES or entry.path == missing or (has_ending and _is_own(entry)):
            continue
        others = entry.path.split(_SEP)
        shared = _shared(parts, others)
        wanted, rest = tail(shared), _SEP.join(others[shared:])
        spelled = matcher(name).likeness(entry.name)
        whole = matcher(wanted).likeness(rest) if (wanted, rest) != (name, entry.name) else spelled
        if spelled >= _ALIKE or whole >= _ALIKE_PATH:
            yield _Near(1 - max(spelled, whole), 1 - whole, rest.count(_SEP), entry.path)


def _shared(ones: list[str], others: list[str]) -> int:
    """Return the number of leading directories that two paths share."""
    shared = 0
    while shared < min(len(ones), len(others)) - 1 and ones[shared] == others[shared]:
        shared += 1
    return shared


class _NameMatcher:
    """Compares one text with many, ignoring case; stem and extension are compared separately."""

    def __init__(self, wanted: str) -> None:
        self._stem, self._ending = _split(wanted.casefold())
        self._matcher = SequenceMatcher(None, "", self._stem, autojunk=False)
        self._is_comparable = 0 < len(wanted) <= _LONGEST

    def likeness(self, other: str) -> float:
        """Return 1 for an equal text, 0 for a clearly different one."""
        if not self._is_comparable or not 0 < len(other) <= _LONGEST:
            return 0.0
        stem, ending = _split(other.casefold())
        cost = 0.0 if ending == self._ending else _OTHER_ENDING
        if stem == self._stem:
            return 1 - cost
        self._matcher.set_seq1(stem)
        # The two quick ratios are upper bounds: they rule most names out by length or letters.
        quick = (
            self._matcher.quick_ratio()
            if self._matcher.real_quick_ratio() - cost >= _ALIKE
            else 0.0
        )
        if quick - cost < _ALIKE:
            return 0.0
        ratio = self._matcher.ratio()
        if quick == 1:  # the same letters in another order
            ratio = max(ratio, _SWAPPED)
        return ratio - cost


def _split(text: str) -> tuple[str, str]:
    """Return the stem and the extension of a name; a hidden file's name is no extension."""
    stem, _, ending = text.rpartition(".")
    is_ending = stem and not stem.endswith(_SEP) and _SEP not in ending
    return (stem, ending) if is_ending else (text, "")


def _is_own(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a directory, and not a link to one."""
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False
