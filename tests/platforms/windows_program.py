"""`python -m tests.platforms.windows_program FOLDER`: the package on Windows, or under the stand-in for it: a line of JSON for each part, its name and "" or what went wrong.

Rule: each part is what a user would see; a part that fails does not hide the others.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
import time
import traceback
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

from tests.peers.processes import is_alive


IS_WINDOWS = sys.platform == "win32"
LOCKS, LOCK = (
    ("msvcrt", "msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)")
    if IS_WINDOWS
    else ("fcntl", "fcntl.lockf(handle, fcntl.LOCK_EX, 1, 1 << 30)")
)
HOLDER = f"""
import {LOCKS}, os, sys
handle = os.open(sys.argv[1] + ".owner", os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
os.write(handle, b"%d\\n" % os.getpid())
os.lseek(handle, 1 << 30, os.SEEK_SET)
{LOCK}
print("held", flush=True)
sys.stdin.read()
"""
DEAF = "import signal, sys, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
DAEMON = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self): self.send_response(200); self.end_headers()
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def part_every_module_is_imported(_):
    for module in walk_packages(import_module("resilient_bridge").__path__, "resilient_bridge."):
        if (
            module.name
            not in {
                "resilient_bridge.__main__",
                "resilient_bridge.client.signature",  # for checkers alone
                "resilient_bridge.adapters.sidecar.front_http_connection",  # uvicorn's click asks for a real Windows
            }
        ):
            import_module(module.name)


def part_a_store_has_one_owner(folder):
    from resilient_bridge.errors import StoreError
    from tests.internals.files import Owner

    path = folder / "owned.db"
    first = Owner(path).take()
    try:
        Owner(path).take()
    except StoreError as error:
        assert "another client of this process" in str(error), error
    else:
        raise AssertionError("two owners")
    first.release()
    Owner(path).take().release()


async def part_a_store_of_another_process_is_refused(folder):
    from resilient_bridge.errors import StoreError
    from tests.internals.files import Owner

    path = folder / "foreign.db"
    holder = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HOLDER, str(path)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert (await holder.stdout.readline()).rstrip() == b"held"
    try:
        Owner(path).take()
    except StoreError as error:
        assert f"in use by process {holder.pid}" in str(error), error
    else:
        raise AssertionError("two owners")
    finally:
        holder.stdin.close()
        await holder.wait()
    Owner(path).take().release()


async def part_a_client_keeps_its_messages_over_a_broken_line(folder):
    import resilient_bridge as rb
    from resilient_bridge.testing import Fault

    path = folder / "bridge.db"
    async with rb.testing.BridgeServer() as server:
        port = int(server.url.rpartition(":")[2].partition("/")[0])
        async with rb.testing.FaultProxy("127.0.0.1", port) as proxy:
            async with rb.BridgeClient(
                proxy.url("/ws"), store=path, policy=rb.presets.recursor
            ) as client:
                await (await client.send("note", {"n": 1})).confirmed(timeout=10)
                proxy.apply(Fault.abort())
                await (await client.send("note", {"n": 2})).confirmed(timeout=10)
            proxy.refuse()
        assert proxy.connections == 2, proxy.connections
    remaining = [one.name for one in folder.iterdir() if one.name.startswith("bridge.db-")]
    assert not remaining, remaining
    async with rb.BridgeClient("ws://127.0.0.1:1", store=path) as client:
        assert not client.pending()
        await client.aclose(drain=0)


async def part_a_damaged_database_is_mended(folder):
    import resilient_bridge as rb

    path = folder / "damaged.db"
    async with rb.BridgeClient("ws://127.0.0.1:1", store=path) as client:
        await client.send("note", {"n": 1})
        await client.aclose(drain=0)
    path.write_bytes(path.read_bytes()[:4096] + bytes(4096))
    async with rb.BridgeClient("ws://127.0.0.1:1", store=path) as client:
        await client.aclose(drain=0)
    assert list(folder.glob("damaged.db.damaged-*")), list(folder.iterdir())


def part_a_reader_of_a_file_is_waited_for(folder):
    from resilient_bridge.stores import StateFile

    path = folder / "state.json"
    file = StateFile(path, version=1)
    file.save({"n": 1})
    reader = path.open("rb")
    threading.Timer(0.1, reader.close).start()
    file.save({"n": 2})
    assert file.load().value == {"n": 2}


def part_a_reader_that_stays_is_a_typed_error(folder):
    from resilient_bridge.errors import StoreError
    from tests.internals.files import replace_atomically

    path = folder / "read.json"
    replace_atomically(path, b"old")
    began = time.monotonic()
    with path.open("rb"):
        try:
            replace_atomically(path, b"new")
        except StoreError as error:
            assert error.failure.code == "SYS_STORE_UNAVAILABLE", error
        else:
            raise AssertionError("it was replaced")
    assert 0.9 < time.monotonic() - began < 5
    assert path.read_bytes() == b"old"
    assert [one.name for one in folder.iterdir() if one.name.startswith(".read")] == []


def part_a_session_log_is_rotated(folder):
    import resilient_bridge as rb

    path = folder / "log.jsonl"
    with rb.stores.SessionLog(path, max_bytes=65_536) as log:
        for number in range(1_500):
            log.write({"number": number, "text": "x" * 50})
        assert not log.lost, log.lost
    assert path.with_name("log.jsonl.1").exists()


async def part_a_child_that_is_deaf_is_taken_away(folder):
    import resilient_bridge as rb

    async with rb.links.stdio(sys.executable, "-c", DEAF, close_timeout=0.3)() as peer:
        await asyncio.sleep(0)
        pid = peer.pid
    if not IS_WINDOWS:
        killed = (folder / "killed").read_text().split()
        assert killed[:4] == ["/T", "/F", "/PID", str(pid)], killed
    assert not is_alive(pid)


async def part_a_command_is_ended_at_its_timeout(folder):
    import resilient_bridge as rb

    toolbox = rb.agent.Toolbox()
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    nap = toolbox.command(lambda: command, name="nap", timeout=0.3)
    try:
        await nap()
    except rb.errors.AttemptTimeoutError:
        return
    raise AssertionError("it was awaited")


async def part_a_daemon_is_started_and_stopped(folder):
    import resilient_bridge as rb
    from tests.peers.ports import Port

    port = Port().number
    daemon = rb.agent.Daemon(
        sys.executable, "-c", DAEMON, str(port), health=f"http://127.0.0.1:{port}/"
    )
    await daemon.ensure()
    pid = daemon.pid
    assert is_alive(pid)
    await daemon.stop()
    assert not is_alive(pid)


async def part_a_daemon_that_fails_says_why(folder):
    import resilient_bridge as rb
    from tests.peers.ports import Port

    port = Port().number
    for log in (None, str(folder / "daemon.log")):
        code = "import sys; sys.exit('no such database')"
        daemon = rb.agent.Daemon(
            sys.executable,
            "-IS",
            "-c",
            code,
            health=f"http://127.0.0.1:{port}/",
            log=log,
            startup_timeout=1,
        )
        try:
            await daemon.ensure()
        except rb.BridgeError as error:
            assert "no such database" in str(error), error
        else:
            raise AssertionError("it is ready")


async def part_signals_reach_a_command(_):
    from tests.internals.adapters import on_signals

    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGBREAK)]
    for number in (signal.SIGINT, signal.SIGBREAK, signal.SIGTERM):
        called = asyncio.Event()
        with on_signals(called.set):
            signal.raise_signal(number)
            await asyncio.wait_for(called.wait(), 5)
    assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGBREAK)]


def part_fixes_are_suggested(folder):
    import resilient_bridge as rb

    (folder / "there").mkdir()
    for error in (
        PermissionError(13, "Permission denied", str(folder / "there")),
        OSError(28, "No space left on device", str(folder)),
        OSError(30, "Read-only file system", str(folder)),
    ):
        assert rb.agent.suggest(rb.classify(error)), error


async def main(folder: Path) -> None:
    if not IS_WINDOWS:
        from tests.platforms.windows_stand_in import become_windows

        become_windows(folder)
    chosen = set(sys.argv[2:])
    for name, part in list(globals().items()):
        if not name.startswith("part_") or (chosen and name not in chosen):
            continue
        wrong = ""
        try:
            made = part(folder)
            if asyncio.iscoroutine(made):
                await asyncio.wait_for(made, 30)
        except BaseException:  # noqa: BLE001 -- told to the test
            wrong = traceback.format_exc()
        sys.stdout.write(json.dumps([name.removeprefix("part_"), wrong]) + "\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
