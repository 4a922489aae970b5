"""A result of `confirmed()` is in the file: a process that dies right after it does not send again.

A death is a copy of the files at that moment.
"""

from __future__ import annotations

import asyncio
import shutil

import pytest

import resilient_bridge as rb
from resilient_bridge.stores import SQLiteStore


async def _watch(receipt, directory, name):
    """Read a receipt in every iteration of the loop; when it is confirmed, await it, and copy the file at once."""
    while receipt.state != "confirmed":
        await asyncio.sleep(0)
    await receipt.confirmed()
    for side in ("", "-wal"):
        shutil.copyfile(directory / f"first.db{side}", directory / f"{name}.db{side}")


@pytest.mark.real
@pytest.mark.requirement("V9")
@pytest.mark.parametrize("watchers", [1, 2, 5])
async def test_a_receipt_confirmed_in_this_iteration_is_stored(tmp_path, watchers):
    """Before and after the reader's step of the loop no copy of the file has the message pending."""

    tmp_path.chmod(0o700)
    async with rb.testing.BridgeServer() as server:
        async with rb.BridgeClient(server.url, store=SQLiteStore(tmp_path / "first.db")) as client:
            await client.wait_ready()
            names = [f"{n} {number}" for n in range(5) for number in range(watchers)]
            for n in range(5):
                receipt = await client.send("note", {"n": n}, idempotency_key=f"m{n}")
                mine = [name for name in names if name.startswith(f"{n} ")]
                await asyncio.gather(*(_watch(receipt, tmp_path, name) for name in mine))
        for name in names:
            async with rb.BridgeClient(
                server.url, store=SQLiteStore(tmp_path / f"{name}.db")
            ) as again:
                assert [remaining.idempotency_key for remaining in again.pending()] == []
