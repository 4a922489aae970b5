"""Verdicts on exit codes of processes, and on the errors of `subprocess`.

Rule: an exit code with a standard meaning (the shell's, a signal's, one of sysexits) decides. Any
other is specific to the program, and is judged by what the program printed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .dispatch import Rows
from .errnos import hints
from .failure import Finding, is_timeout
from .redaction import redact
from .texts import program_finding, text_finding
from .vocabulary import Category, Executed, code_info


_TAIL: Final = 480  # characters kept of each stream: the reason is at the end
_READ: Final = 4_096
_FAILED: Final = Finding(code="TOOL_EXECUTION_FAILED")
_NOT_RUN: Final = Finding(code="SYS_CONFIG_INVALID")
_LOST: Final = Finding(
    code="TOOL_EXECUTION_FAILED",
    category=Category.TRANSPORT,
    retryable=True,
    executed=Executed.MAYBE,
)
_ONCE: Final = {"max_retries": 1}
_CRASHED: Final = _LOST.evolve(
    message="crashed",
    suggestions=("read its error output: a crash mostly comes back",),
    details=_ONCE,
)

_TIMED_OUT: Final = Finding(
    code="TOOL_TIMEOUT", message="ended by its time limit", executed=Executed.MAYBE
)

EXITS: Mapping[int, Finding] = {
    124: _TIMED_OUT,  # coreutils' timeout
    75: _FAILED.evolve(message="failed for now", retryable=True),  # EX_TEMPFAIL
    77: _FAILED.evolve(message="permission denied", suggestions=hints("EACCES")),  # EX_NOPERM
    # EX_CONFIG
    78: _FAILED.evolve(message="configured wrongly", suggestions=("check its configuration",)),
    126: _NOT_RUN.evolve(
        message="command not executable",
        suggestions=("check its permissions and its format",),
    ),
    127: _NOT_RUN.evolve(
        message="command not found",
        suggestions=("check its spelling and the search path",),
    ),
    130: Finding(
        code="SYS_INTERNAL_ERROR",
        message="interrupted by the user",
        suggestions=("start it again",),
    ),
    134: _CRASHED,
    137: _LOST.evolve(
        message="killed, probably for using too much memory",
        suggestions=("give it more memory, or ask for less at once",),
        details=_ONCE,
    ),
    139: _CRASHED,
    143: _LOST.evolve(message="ended by its supervisor", suggestions=("start it again",)),
}
"""What each exit code means; any other is the program's own: failed, and not known to pass."""


def exit_finding(code: int, stderr: object = "", stdout: object = "", program: str = "") -> Finding:
    """Return the verdict on an exit code, negative for a signal, as `subprocess` reports it.

    `stderr` and `stdout` are text, bytes or None; their ends are kept, redacted. For a code without
    a standard meaning the text of `stderr` is read, and if that says nothing, the table of
    `program` (its base name). They say whether a retry can help, and whether it was a time limit or
    a rate limit.
    """
    printed = _printed(stderr, stdout)
    finding = EXITS.get(128 - code if code < 0 else code)
    if finding is None:
        finding = _own(code, printed.get("stderr", ""), program)
    return finding.evolve(details={**finding.details, "exit_code": code, **printed})


def _printed(stderr: object, stdout: object) -> dict[str, str]:
    tails = {"stderr": tail_of(stderr), "stdout": tail_of(stdout)}
    return {name: text for name, text in tails.items() if text}


def tail_of(output: object) -> str:
    """Return the end of what a process printed, redacted and bounded; empty for none."""
    if isinstance(output, (bytes, bytearray)):
        output = bytes(output[-_READ:]).decode("utf-8", "replace")
    if not isinstance(output, str) or not output:
        return ""
    text = output[-_READ:]
    if len(text) == _READ:  # a secret cut in two may not be recognised: drop the first word
        text = ([*text.split(None, 1), ""])[1]
    text = redact(text.strip(), limit=2 * _READ)
    return text if len(text) <= _TAIL else "…" + text[-_TAIL:]


def _own(code: int, text: str, program: str) -> Finding:
    """Return the verdict on a program-specific exit code: by what it printed, else by its table."""
    finding = _FAILED.evolve(message=f"command failed with exit code {code}")
    found = text_finding(text) or program_finding(program, code)
    if found is None:
        return finding
    verdict = found.failure()
    is_limited = verdict.code == "SYS_RATE_LIMITED"
    if is_limited or is_timeout(verdict):  # policies have rules for these two (R11, V2)
        finding = finding.evolve(
            code="SYS_RATE_LIMITED" if is_limited else "TOOL_TIMEOUT",
            message=f"{finding.message}: {code_info(verdict.code).summary}",
            executed=Executed.YES if is_limited else Executed.MAYBE,
        )
    return finding.evolve(
        kind=verdict.kind,
        retryable=verdict.retryable,
        retry_after=verdict.retry_after,
        suggestions=found.suggestions,
        details=found.details,
    )


def _called(error: Any) -> Finding:
    finding = exit_finding(int(error.returncode), error.stderr, error.stdout, _program(error.cmd))
    text = f"CalledProcessError: {_program(error.cmd)} ended with {error.returncode}"  # without its arguments
    return finding.evolve(details={**finding.details, "error": text})


def _expired(error: Any) -> Finding:
    text = f"TimeoutExpired: {_program(error.cmd)} after {error.timeout} s"
    return Finding(
        code="TOOL_TIMEOUT", details={**_printed(error.stderr, error.stdout), "error": text}
    )


def _program(command: object) -> str:
    first: object = command
    if isinstance(command, (list, tuple)) and command:
        first = command[0]  # pyright: ignore[reportUnknownVariableType]
    words = str(first).split() if isinstance(first, str) else [str(first)]  # pyright: ignore[reportUnknownArgumentType]
    return words[0].rpartition("/")[2][:80] if words else "command"


ROWS: Final = Rows(
    {
        ("subprocess", "CalledProcessError"): _called,
        ("subprocess", "TimeoutExpired"): _expired,
    }
)
