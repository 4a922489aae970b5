"""This process as if it ran on Windows, as far as that can be had on Linux: `become_windows(folder)`, before the package is imported.

What Windows lacks is taken away (fcntl, fork, SIGKILL, killpg, uids, pread, fsync of directories, signal handlers and readers of a loop); what it refuses
is refused (a rename or removal of an open file, a rename onto a name that is taken); what it has instead is put in its place (msvcrt.locking, Ctrl-Break,
taskkill). Rule: a stand-in, and no proof of Windows: its locks are advisory, its clock is fine, SQLite and the standard library are those of Linux.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace

import websockets.asyncio.server


assert sqlite3, websockets  # loaded while this is still Linux

NOT_THERE = """fork forkpty killpg getuid geteuid getgid getegid getpgid getsid setsid pread pwrite fchmod fchown chown statvfs fstatvfs uname mkfifo
    register_at_fork O_CLOEXEC O_DIRECTORY O_NOFOLLOW ST_RDONLY""".split()
NO_SIGNALS = "SIGKILL SIGHUP SIGQUIT SIGUSR1 SIGUSR2 SIGCHLD SIGPIPE SIGALRM".split()
NO_MODULES = "fcntl grp pwd resource termios tty".split()
_TASKKILL = """#!/bin/sh
echo "$@" >> {notes}
kill -9 "$4"
"""


def become_windows(folder: Path) -> None:
    """Change this process; `folder` gets a System32 with a `taskkill.exe`, which notes in `folder/killed` what it was told."""
    _locks()
    _renames()
    _processes(folder)
    for name in NOT_THERE:
        delattr(os, name)
    for name in NO_MODULES:
        sys.modules[name] = None
    os.O_BINARY = os.O_TEMPORARY = 0
    _loops()
    tempfile.tempdir = str(folder)
    sys.platform = "win32"


def _locks():
    import fcntl

    def locking(handle, mode, size):
        """Lock where the descriptor stands, as the C runtime does; OSError if somebody has it."""
        assert mode == msvcrt.LK_NBLCK
        try:
            fcntl.lockf(
                handle, fcntl.LOCK_EX | fcntl.LOCK_NB, size, os.lseek(handle, 0, os.SEEK_CUR)
            )
        except OSError:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) from None

    msvcrt = ModuleType("msvcrt")
    msvcrt.LK_NBLCK, msvcrt.locking = 2, locking
    sys.modules["msvcrt"] = msvcrt


def _refuse_open(*paths):
    for path in paths:
        target = os.path.realpath(path)
        for number in Path("/proc/self/fd").iterdir():
            with suppress(FileNotFoundError):
                if str(number.readlink()) == target:
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def _renames():
    plain_replace, plain_unlink = os.replace, os.unlink

    def replace(old, new):
        _refuse_open(old, new)
        plain_replace(old, new)

    def rename(old, new):
        if os.path.lexists(new):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(new))
        replace(old, new)

    def unlink(path, *, dir_fd=None):
        if dir_fd is None:
            _refuse_open(path)
        plain_unlink(path, dir_fd=dir_fd)

    os.replace, os.rename, os.unlink, os.remove = replace, rename, unlink, unlink


def _processes(folder):
    kill = signal.SIGKILL
    system = folder / "System32"
    system.mkdir()
    program = system / "taskkill.exe"
    program.write_text(_TASKKILL.format(notes=folder / "killed"))
    program.chmod(0o700)
    os.environ["SYSTEMROOT"] = str(folder)
    subprocess.CREATE_NEW_PROCESS_GROUP = 0  # the Popen of Linux takes no other
    subprocess.Popen.kill = lambda self: self.send_signal(kill)
    signal.CTRL_BREAK_EVENT, signal.SIGBREAK = signal.SIGINT, signal.SIGUSR1
    _consoles()
    for name in NO_SIGNALS:
        delattr(signal, name)


def _consoles():
    """This process has a console; `os.kill` is that of one that has none, where CPython ends the child at once and then raises."""
    plain_kill = os.kill

    def kill(number, event):
        plain_kill(number, event)
        if event == signal.CTRL_BREAK_EVENT:
            raise SystemError("<built-in function kill> returned a result with an exception set")

    def send(event, group):
        assert event == signal.CTRL_BREAK_EVENT
        plain_kill(group, event)
        return 1

    os.kill = kill
    ctypes.windll = SimpleNamespace(kernel32=SimpleNamespace(GenerateConsoleCtrlEvent=send))


def _loops():
    """The package may not ask for what the loops of Windows lack; the standard library of Linux goes on using it."""

    def refused_to_us(name):
        plain = getattr(asyncio.SelectorEventLoop, name)

        def method(loop, *arguments):
            if sys._getframe(1).f_globals["__name__"].startswith("resilient_bridge"):
                raise NotImplementedError
            return plain(loop, *arguments)

        setattr(asyncio.SelectorEventLoop, name, method)

    for name in (
        "add_signal_handler",
        "remove_signal_handler",
        "add_reader",
        "remove_reader",
        "add_writer",
        "remove_writer",
    ):
        refused_to_us(name)
