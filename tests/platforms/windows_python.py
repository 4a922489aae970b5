"""CPython for Windows under Wine, made of what PyPI and Debian have: `python -m tests.platforms.windows_python ARGUMENTS` runs its python.exe.

It is built first where it is not there, below $RB_WINDOWS (default: ~/.cache/resilient-bridge-windows), which takes 1.2 GB: python311.dll
and its modules are those that the wheel of panda3d carries, the standard library is that of the Python which runs this, and python.exe is a
program of ten lines. Rule: Wine is not Windows; what is found here is a reason to look, and what passes here is no proof.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path


ROOT = Path(__file__).parents[2]
HOME = Path(os.environ.get("RB_WINDOWS") or Path.home() / ".cache" / "resilient-bridge-windows")
PYTHON = HOME / "python" / "python.exe"
PACKAGES = HOME / "python" / "Lib" / "site-packages"

_GCC = "x86_64-w64-mingw32-gcc"
_WINDOWS = (
    "--python-platform",
    "x86_64-pc-windows-msvc",
    "--python-version",
    "3.11",
    "--only-binary",
    ":all:",
)
_CARRIER = "panda3d==1.10.16"  # CPython 3.11.9, of 2024-04-02
_NOT_THERE = (
    "__pycache__",
    "config-*",
    "idlelib",
    "lib-dynload",
    "lib2to3",
    "site-packages",
    "test",
    "tests",
)
_DEBIAN = "apt-get install --no-install-recommends wine wine64 gcc-mingw-w64-x86-64"
_MAIN = r"""
#include <windows.h>
int wmain(int count, wchar_t **words) {
    HMODULE python = LoadLibraryW(L"python311.dll");
    int (*main)(int, wchar_t **) = python ? (void *) GetProcAddress(python, "Py_Main") : NULL;
    return main ? main(count, words) : 3;
}
"""
# What Wine 8.0 lacks, and some wheels ask for.
_RANDOM = r"""
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL ProcessPrng(PBYTE bytes, SIZE_T size) { return SystemFunction036(bytes, (ULONG) size); }
"""


def environment() -> dict[str, str]:
    """What Wine and the Python in it are told: a folder of their own, and where the package is."""
    own = {
        "WINEPREFIX": str(HOME / "prefix"),
        "WINEDEBUG": "-all",
        "PYTHONPATH": "Z:" + str(ROOT).replace("/", "\\"),
    }
    return {**os.environ, **own}


def build() -> None:
    """Make what is missing. Raises SystemExit with what has to be installed by hand."""
    missing = [name for name in ("wine", _GCC, "uv") if shutil.which(name) is None]
    if missing or sys.version_info[:2] != (3, 11):
        raise SystemExit(
            f"wanted Python 3.11, uv, and on Debian: {_DEBIAN}; missing: {missing or 'Python 3.11'}"
        )
    if not PYTHON.exists():
        shutil.rmtree(HOME, ignore_errors=True)
        _interpreter(HOME / "making")
        (HOME / "making").rename(HOME / "python")
    project = [str(ROOT / "pyproject.toml"), "--extra", "test"]
    _run("uv", "pip", "install", "-q", *_WINDOWS, "--target", str(PACKAGES), "-r", *project)
    if not (HOME / "prefix").exists():
        _run("wineboot", "-i", env=environment())


def _interpreter(folder: Path) -> None:
    wheel = folder / "wheel"
    _run("uv", "pip", "install", "-q", *_WINDOWS, "--target", str(wheel), "--no-deps", _CARRIER)
    (folder / "DLLs").mkdir()
    for file in (wheel / "deploy_libs").iterdir():
        beside = file.name.lower() in {"python311.dll", "vcruntime140.dll"}
        if not file.name.startswith(("api-ms-win", "tcl", "tk", "_tkinter")):
            shutil.copy(file, folder if beside else folder / "DLLs")
    shutil.rmtree(wheel)
    shutil.copytree(
        sysconfig.get_path("stdlib"), folder / "Lib", ignore=shutil.ignore_patterns(*_NOT_THERE)
    )
    _compiled(folder, "python.exe", _MAIN, "-municode")
    _compiled(folder, "bcryptprimitives.dll", _RANDOM, "-shared", after=["-ladvapi32"])
    _stable(folder)


def _compiled(
    folder: Path, name: str, source: str, *flags: str, after: tuple[str, ...] | list[str] = ()
) -> None:
    file = folder / "source.c"
    file.write_text(source)
    _run(_GCC, "-O1", *flags, "-o", str(folder / name), str(file), *after)
    file.unlink()


def _stable(folder: Path) -> None:
    """python3.dll, which wheels of the stable ABI ask for: each of its names is that of python311.dll."""
    listed = _run("x86_64-w64-mingw32-objdump", "-p", str(folder / "python311.dll"))
    table = listed.partition("[Ordinal/Name Pointer] Table")[2].partition("\n\n")[0]
    names = sorted(set(re.findall(r"\[ *\d+\].* (\w+)$", table, re.MULTILINE)))
    definition = folder / "python3.def"
    definition.write_text(
        "\n".join(["LIBRARY python3.dll", "EXPORTS", *(f"{n}=python311.{n}" for n in names)])
    )
    _run(
        _GCC, "-shared", "-nostdlib", "-Wl,-e,0", "-o", str(folder / "python3.dll"), str(definition)
    )


def _run(*command: str, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def python(*arguments: str) -> int:
    """Run it in the repository, and print what it prints; returns its exit code. Its streams are pipes: Wine lends it no files."""
    with subprocess.Popen(
        ["wine", str(PYTHON), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=ROOT,
        env=environment(),
    ) as running:
        for line in running.stdout:
            sys.stdout.write(line.decode("utf-8", "replace").replace("\r\n", "\n"))
            sys.stdout.flush()
    return running.returncode


if __name__ == "__main__":
    build()
    code = python(*sys.argv[1:])
    subprocess.run(
        ["wineserver", "-k"], env=environment(), check=False
    )  # and what a test has left running
    raise SystemExit(code)
