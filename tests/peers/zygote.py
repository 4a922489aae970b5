"""Python programs in processes of their own that import little: they are forked from one that has imported the most.

`PYTHON` stands where `sys.executable` would: `(*PYTHON, "-m", "resilient_bridge", "pipe", "ws://…")`. What runs is a process
like any other, with streams, directory, environment and exit code of its own; it ends when its stand-in is killed.
An import of the MCP SDK takes a second of each start, that of the package a third of one.

How: what is started is a stand-in (stand_in.py). It hands its streams to the zygote, which forks the program and a guard.
The guard kills the program when the stand-in is gone, and tells the stand-in how the program ended. Rule: the program is
no child of its stand-in and in a session of its own, so tests about pids, groups and terminals start `sys.executable`.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import marshal
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from shutil import rmtree


IMPORTED = (
    "mcp.server.mcpserver",
    "redis",
    "uvicorn",
    *(
        f"resilient_bridge.cli.{name}"
        for name in ("backoff", "doctor", "doctor_mcp", "pipe", "serve", "demo", "workflow")
    ),
    "resilient_bridge.client.driver",
    "resilient_bridge.transports.websocket",
    "websockets.asyncio.server",
)


def _started() -> str | None:
    # A process that measures coverage is to be started as such.
    if not hasattr(os, "pidfd_open") or "COVERAGE_PROCESS_START" in os.environ:
        return None
    folder = tempfile.mkdtemp(prefix="zygote-")
    path = f"{folder}/socket"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    command = [sys.executable, "-m", "tests.peers.zygote"]
    root = Path(__file__).parents[2]
    # its stdout is the socket that it listens on
    zygote = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=listener.fileno(), cwd=root)
    listener.close()

    def end() -> None:
        zygote.stdin.close()
        zygote.wait()
        rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return path


def serve(listener: socket.socket) -> None:
    """Fork a program for each stand-in until stdin ends; returns in the program, as which this process goes on."""
    while True:
        ready, _, _ = select.select([listener, 0], [], [])
        if 0 in ready:
            os._exit(0)
        link, _ = listener.accept()
        if "mcp" not in sys.modules:
            for name in IMPORTED:
                importlib.import_module(name)
            gc.collect()
            gc.freeze()
        if os.fork() == 0:
            listener.close()
            return guard(link)
        link.close()
        while _reaped():
            pass


def _reaped() -> bool:
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


def guard(link: socket.socket) -> None:
    """Fork the program and end with it; returns in the program."""
    head, streams, _, _ = socket.recv_fds(link, 8, 3)
    request = link.makefile("rb").read(int.from_bytes(head, "big"))
    program = os.fork()
    if program == 0:
        link.close()
        return begin(streams, *marshal.loads(request))
    for stream in (0, 1, *streams):
        os.close(stream)
    end = os.pidfd_open(program)
    # The program may already have been read from, and its stand-in killed.
    _tell(link, program)
    ready, _, _ = select.select([link, end], [], [])
    if link in ready:
        os.kill(program, signal.SIGKILL)
    _, status = os.waitpid(program, 0)
    _tell(link, status)
    os._exit(0)


def _tell(link: socket.socket, number: int) -> None:
    with suppress(ConnectionError):  # the stand-in is gone, which `link` shows as well
        link.sendall(number.to_bytes(4, "big"))


def begin(
    streams: list[int], arguments: list[str], folder: str, environment: dict[bytes, bytes]
) -> None:
    """Become the program: its streams, folder, environment and arguments."""
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environb.clear()
    os.environb.update(environment)
    is_unbuffered = bool(environment.get(b"PYTHONUNBUFFERED"))
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(
        io.BufferedReader(io.FileIO(0, closefd=False)), "utf-8"
    )
    sys.stdout = sys.__stdout__ = _writer(1, is_unbuffered, "strict")
    sys.stderr = sys.__stderr__ = _writer(2, is_unbuffered, "backslashreplace")
    sys.argv = arguments


def _writer(number: int, is_unbuffered: bool, errors: str) -> io.TextIOWrapper:
    binary = io.BufferedWriter(io.FileIO(number, "w", closefd=False))
    return io.TextIOWrapper(
        binary,
        "utf-8",
        errors,
        line_buffering=number == 2 or os.isatty(number),
        write_through=is_unbuffered,
    )


def run() -> None:
    """Run what `sys.argv` names, as `python` would."""
    option, *rest = sys.argv
    if option == "-c":
        sys.argv = ["-c", *rest[1:]]
        sys.path[0] = ""
        exec(compile(rest[0], "<string>", "exec"), sys.modules["__main__"].__dict__)
    elif option == "-m":
        sys.argv = rest
        sys.path[0] = str(Path.cwd())
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(option).parent)
        runpy.run_path(option, run_name="__main__")


if __name__ == "__main__":
    serve(socket.socket(fileno=os.dup(1)))
    run()
else:
    SOCKET = os.environ.get("RB_ZYGOTE") or _started()
    """Where the zygote listens that all workers share; None where programs are started by Python itself."""
    PYTHON = (sys.executable,)
    if SOCKET is not None:
        PYTHON += ("-IS", str(Path(__file__).with_name("stand_in.py")), SOCKET)
