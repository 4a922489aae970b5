"""A database is mended by renames, and each of them may fail: refused then, and all that can be had is had by the next opening."""

from __future__ import annotations

import errno
import os
from itertools import count

import pytest

from resilient_bridge.errors import StoreError
from tests.stores.database_content import checkpointed, crashed, look
from tests.stores.database_damage import (
    Damaged,
    files_of,
    flipped,
    write_out,
    wrong_event,
    wrong_rows,
)


pytestmark = [pytest.mark.crash, pytest.mark.requirement("C5")]


class Renames:
    """`os.rename` and `os.replace`, of which number `at` fails, and with `lasting` every later one; 0 for none."""

    def __init__(self, at, *, lasting):
        self.made, self._at, self._lasting = 0, at, lasting

    def instead_of(self, plain):
        """The function that counts."""

        def rename(*args, **options):
            self.made += 1
            if self._at and (self.made == self._at or (self._lasting and self.made > self._at)):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return plain(*args, **options)

        return rename


async def opened_with(renames, path, monkeypatch):
    """The events of an opening with these renames, None if it was refused."""
    with monkeypatch.context() as patch:
        for name in ("rename", "replace"):
            patch.setattr(os, name, renames.instead_of(getattr(os, name)))
        try:
            _, events = await look(path)
        except StoreError as error:
            assert error.failure.code == "SYS_STORE_UNAVAILABLE"
            return None
    return events


async def without_its_last_page(directory):
    """One file, on whose last page there are zeros."""
    files = files_of(await checkpointed(directory))
    return Damaged("the last page", {**files, "": files[""][:-2048] + bytes(2048)})


async def with_a_log_that_is_damaged(directory):
    """A file and its log, in the middle of which a bit is turned over."""
    files = files_of(await crashed(directory))
    return flipped(files, "-wal", len(files["-wal"]) // 2, 3)


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("make", [without_its_last_page, with_a_log_that_is_damaged])
async def test_every_rename_that_fails(tmp_path, monkeypatch, make, lasting):
    """SYS_STORE_UNAVAILABLE, or open all the same; the next opening has what it would have had anyway, and it is told once."""
    tmp_path.chmod(0o700)
    (tmp_path / "made").mkdir(mode=0o700)
    damaged = await make(tmp_path / "made")
    truth, refused = None, 0
    for at in count():
        (tmp_path / f"{at}").mkdir(mode=0o700)
        path = write_out(damaged, tmp_path / f"{at}")
        renames = Renames(at, lasting=lasting)
        first = await opened_with(renames, path, monkeypatch)
        content, second = await look(path)
        truth = truth or content
        parts = [*(first or ()), *second]
        assert (at, len(parts)) == (at, 1)
        assert (at, wrong_rows(content), wrong_event(parts[0], damaged, content)) == (at, [], [])
        assert (at, content) == (at, truth)
        assert await look(path) == (content, [])
        refused += first is None
        if renames.made < at:
            break
    assert len(truth.entries) > 20
    assert refused >= 2
