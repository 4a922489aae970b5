"""Processes: every row of the exit codes on what `subprocess` raises, and the ends of what was printed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from resilient_bridge.failure import classify, exit_finding
from tests.rows import each_row


ROWS = {
    "exit 126 / 127 | CONFIG | no": ((126, 127), "CONFIG no maybe None"),
    "exit 130, -2 | INTERNAL | no | user interrupt": ((130, -2), "INTERNAL no maybe None"),
    "137, -9 | TRANSPORT | once | OOM": ((137, -9), "TRANSPORT yes maybe 1"),
    "139, -11; 134, -6 | TRANSPORT | once | crash": ((139, -11, 134, -6), "TRANSPORT yes maybe 1"),
    "143, -15 | TRANSPORT | yes": ((143, -15), "TRANSPORT yes maybe None"),
    "other exit N | UPSTREAM | no ★": ((1, 2, 3, 64, 255, -31), "UPSTREAM no yes None"),
    "sysexits 75 EX_TEMPFAIL yes": ((75,), "UPSTREAM yes yes None"),
    "sysexits 77/78 no": ((77, 78), "UPSTREAM no yes None"),
}


def _exit(code: int, stderr: str = "", stdout: str = "") -> subprocess.CalledProcessError:
    """The error of a process that really ends like this."""
    script = f"import os, signal, sys; print({stdout!r}, end=''); sys.stdout.flush(); print({stderr!r}, end='', file=sys.stderr)"
    end = f"sys.stderr.flush(); os._exit({code})" if code >= 0 else f"os.kill(os.getpid(), {-code})"
    with pytest.raises(subprocess.CalledProcessError) as caught:
        subprocess.run(
            [sys.executable, "-c", f"{script}; {end}"], capture_output=True, text=True, check=True
        )
    return caught.value


def _row(failure) -> str:
    again = "yes" if failure.retryable else "no"
    return f"{failure.category} {again} {failure.executed} {failure.details.get('max_retries')}"


@pytest.mark.requirement("C1")
@each_row(("codes", "wanted"), ROWS.values(), ids=ROWS)
def test_every_exit_code(codes, wanted):
    """Category, repeat, ran, how often at most: from the code alone, and below 0 from the signal."""
    for code in codes:
        failure = exit_finding(code).failure()
        assert (code, _row(failure)) == (code, wanted)
        assert failure.details["exit_code"] == code


@pytest.mark.requirement("C1")
def test_a_process_that_really_failed():
    """CalledProcessError: the code, the ends of both streams; `once` is transient with max_retries 1."""
    failure = classify(_exit(3, stderr="error: file not found", stdout="half"))
    assert (failure.code, failure.category, failure.retryable) == (
        "TOOL_EXECUTION_FAILED",
        "UPSTREAM",
        False,
    )
    assert failure.details["stderr"] == "error: file not found"
    assert failure.details["stdout"] == "half"
    assert str(failure) == "command failed with exit code 3 (UPSTREAM, not_found, not retryable)"
    killed = classify(_exit(-9))
    assert (killed.kind, killed.retryable, killed.details["max_retries"]) == ("transient", True, 1)


@pytest.mark.requirement("C1")
@pytest.mark.parametrize(
    ("stderr", "kind"),
    [
        ("Error: connect ECONNREFUSED 127.0.0.1:80", "transient"),
        ("curl: (22) The requested URL returned error: 429", "transient"),
        ("bash: nosuch: command not found", "permanent"),
        ("SyntaxError: Unexpected token < in JSON at position 0", "corruption"),
        ("processed 429 rows", "permanent"),
        ("", "permanent"),
    ],
)
def test_what_a_program_printed_tells_only_of_its_own_codes(stderr, kind):
    """Exit 1 says nothing: then the text does. 127 says enough, whatever was printed."""
    assert exit_finding(1, stderr).failure().kind == kind
    assert exit_finding(127, stderr).failure().kind == "permanent"


def test_out_of_memory_in_the_text_is_tried_once():
    """`Out of memory | Maybe | Retry once`."""
    failure = exit_finding(1, "FATAL ERROR: JavaScript heap out of memory").failure()
    assert (failure.retryable, failure.details["max_retries"]) == (True, 1)


def test_the_streams_are_bounded_and_redacted():
    """The end is kept, of megabytes too, as bytes too; a secret is masked, and the command line never shown."""
    failure = exit_finding(1, "x" * 10**6 + " password=canary1 the end", b"\xff " * 10**6).failure()
    assert failure.details["stderr"].endswith("password=[redacted] the end")
    assert all(len(failure.details[name]) <= 500 for name in ("stderr", "stdout"))
    long = exit_finding(1, " ".join(map(str, range(10**5)))).failure().details["stderr"]
    assert long.startswith("…")
    assert long.endswith("99998 99999")
    error = subprocess.CalledProcessError(1, ["/bin/curl", "-H", "Authorization: canary"], "", None)
    assert "canary" not in repr(classify(error).to_dict())
    assert classify(error).details["error"] == "CalledProcessError: curl ended with 1"


@pytest.mark.real
def test_a_process_that_took_too_long():
    """`TimeoutExpired` is neither TimeoutError nor OSError: TOOL_TIMEOUT, yes, may have run, with what it printed."""
    with pytest.raises(subprocess.TimeoutExpired) as caught:
        subprocess.run(
            [sys.executable, "-c", "import signal; print('half', flush=True); signal.pause()"],
            timeout=0.5,
            stdout=subprocess.PIPE,
            check=False,
        )
    failure = classify(caught.value)
    assert (failure.code, failure.category, failure.retryable) == ("TOOL_TIMEOUT", "TIMEOUT", True)
    assert failure.executed == "maybe"
    assert set(failure.details) <= {"stdout", "error"}


def test_a_program_that_is_not_there():
    """ENOENT on spawning: CONFIG, no, and what to check (G8)."""
    with pytest.raises(FileNotFoundError) as caught:
        subprocess.run(["/no/such/program"], check=False)
    failure = classify(caught.value)
    assert (failure.category, failure.retryable, failure.executed) == ("CONFIG", False, "maybe")
    assert "check the path's spelling" in failure.suggestions[0]
