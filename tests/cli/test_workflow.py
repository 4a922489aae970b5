"""`resilient-bridge workflow`: every action with its exit code, as text and as JSON; what it says when it cannot; interruptions."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.calling_workflow import FLOW, call, forgotten_imports
from tests.peers.zygote import PYTHON


ROOT = Path(__file__).parents[2]
COMMAND = ("-m", "resilient_bridge", "workflow")


@pytest.fixture
def flow(tmp_path):
    """A file with that workflow."""
    path = tmp_path / "flow.py"
    path.write_text(FLOW)
    return path


@pytest.fixture
def run(capsys):
    """Calls the command: the exit code, stdout and stderr."""
    with forgotten_imports():
        yield lambda *argv: call(capsys, argv)


def ran(flow):
    """The phases that began, in order."""
    ledger = flow.with_name("ledger")
    return ledger.read_text().split() if ledger.exists() else []


def ready(flow):
    """From now on `ship` succeeds."""
    flow.with_name("redy").write_text("")


# ---- actions --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("C3")
def test_a_run_that_halts_ends_with_one_and_the_report(run, flow):
    """What failed, why, fixes, alternatives; a second run says the same and runs nothing."""
    code, out, err = run("run", flow)
    assert (code, err) == (1, "")
    assert out.startswith("demo halted at phase ship (1 of 2 phases finished)\n")
    for part in (
        "what failed",
        "why",
        "suggested fixes",
        "alternatives",
        "finished: make",
        "left: ship",
    ):
        assert f"\n{part}" in out
    code, again, _ = run("run", flow)
    assert (code, again) == (
        1,
        out.replace("  stopped: not_retryable\n", ""),
    )  # of the call, not of the workflow
    assert run("status", flow) == (1, again, "")
    assert ran(flow) == ["make", "ship"]


@pytest.mark.requirement("C4")
def test_the_likeliest_fix_comes_first(run, flow):
    """A file that is missing and one of nearly that name: the report asks whether that was meant, before it gives general advice."""
    flow.with_name("ready").write_text("")
    _, out, _ = run("run", flow)
    fixes = out.partition("suggested fixes\n")[2].partition("\nalternatives")[0].splitlines()
    assert "ready" in fixes[0]
    assert fixes[0].startswith("  1. ")
    assert len(fixes) > 1


@pytest.mark.requirement("C6")
def test_resume_does_the_rest(run, flow):
    """After it was mended: the phase that failed runs again, the finished one does not, and the end is 0."""
    run("run", flow)
    ready(flow)
    code, out, err = run("resume", flow)
    assert (code, err) == (0, "")
    assert out.startswith("demo completed (2 of 2 phases finished)\n")
    assert ran(flow) == ["make", "ship", "ship"]
    assert run("run", flow)[0] == run("status", flow)[0] == 0
    assert ran(flow) == ["make", "ship", "ship"]


def test_skip_and_resume(run, flow):
    """Skip runs nothing and ends with 0; the reason stands in the end."""
    run("run", flow)
    code, out, _ = run("skip", flow, "--reason", "shipped by hand")
    assert code == 0
    assert "skipped: ship: shipped by hand" in out
    code, out, _ = run("resume", flow)
    assert (code, out.splitlines()[0]) == (0, "demo completed (1 of 2 phases finished, 1 skipped)")
    assert ran(flow) == ["make", "ship"]


def test_skip_can_name_the_phase(run, flow):
    """And does not need it to be the one that halted."""
    run("run", flow)
    assert run("skip", flow, "ship")[0] == 0
    code, _, err = run("skip", flow, "make")
    assert code == 2
    assert "Workflow.skip.phase" in err


def test_abort_ends_with_zero_and_status_with_three(run, flow):
    """To abort is to succeed; who asks later is told that it was aborted; the next run begins anew."""
    run("run", flow)
    code, out, _ = run("abort", flow)
    assert (code, out.splitlines()[0]) == (0, "demo aborted (1 of 2 phases finished)")
    assert run("status", flow)[0] == 3
    assert run("resume", flow)[0] == 2
    ready(flow)
    assert run("run", flow)[0] == 0
    assert ran(flow) == ["make", "ship", "make", "ship"]


def test_status_of_what_has_not_started(run, flow):
    """It is 0, and no file is made."""
    code, out, err = run("status", flow)
    assert (code, out.splitlines()[0], err) == (
        0,
        "demo has not begun (0 of 2 phases finished)",
        "",
    )
    assert [path.name for path in flow.parent.iterdir()] == ["flow.py"]


@pytest.mark.parametrize("action", ["resume", "skip", "abort"])
def test_what_needs_a_beginning_says_so(run, flow, action):
    """In one line on stderr, with 2."""
    code, out, err = run(action, flow)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("resilient-bridge workflow: ")
    assert "has not begun" in err


@pytest.mark.parametrize(
    ("action", "code", "status"),
    [("status", 1, "halted"), ("run", 1, "halted"), ("skip", 0, "running"), ("abort", 0, "aborted"),
     ("resume", 1, "halted")],
)  # fmt: skip
def test_each_report_as_json(run, flow, action, code, status):
    """One object on one line, with the same exit code."""
    run("run", flow)
    got, out, err = run(action, flow, "--json")
    assert (got, out.count("\n"), err) == (code, 1, "")
    reported = json.loads(out)
    assert (reported["workflow"], reported["status"], reported["completed"]) == (
        "demo",
        status,
        ["make"],
    )
    assert (reported["failure"] is not None) is (status == "halted")
    assert reported["state_file"] == str(flow.with_name("state.json"))


def test_an_empty_reason_is_refused(run, flow):
    """As in code."""
    run("run", flow)
    code, _, err = run("skip", flow, "--reason", " ")
    assert code == 2
    assert "Workflow.skip.reason" in err


@pytest.mark.requirement("C5")
def test_a_damaged_file_is_reported_by_status_and_mended_by_run(run, flow):
    """Status changes nothing and ends with 2; the next run uses the backup."""
    run("run", flow)
    state = flow.with_name("state.json")
    state.write_bytes(state.read_bytes()[:-20])
    damaged = state.read_bytes()
    code, out, err = run("status", flow)
    assert (code, out, err.count("\n"), state.read_bytes()) == (2, "", 1, damaged)
    assert "state.json" in err
    code, out, _ = run("run", flow)
    assert code == 1
    assert "warning: the state was damaged" in run("resume", flow)[1]


# ---- processes ------------------------------------------------------------------------------------------------------


def _started(flow, *argv, until=("make", "ship"), python=PYTHON):
    """The command as a process, in the middle of `ship`."""
    child = subprocess.Popen(
        [*python, *COMMAND, *argv, str(flow)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    ends = time.monotonic() + 30
    while ran(flow) != [*until]:
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < ends
        time.sleep(0.01)
    return child


@pytest.mark.real
@pytest.mark.requirement("C6")
@pytest.mark.requirement("C10")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_goes_on_later(run, flow, number):
    """By Ctrl-C or by a supervisor: 130 and one line that says how to go on; the file is sound, and the finished phase does not run again."""
    flow.with_name("wait").write_text("")
    child = _started(flow, "run")
    child.send_signal(number)
    out, err = child.communicate(timeout=30)
    assert (child.returncode, out) == (130, "")
    assert (
        err
        == f"resilient-bridge workflow: interrupted; go on with: resilient-bridge workflow run {flow}\n"
    )
    assert run("status", flow)[1].startswith(
        "demo is not finished, in phase ship (1 of 2 phases finished)\n"
    )
    flow.with_name("wait").unlink()
    ready(flow)
    assert run("run", flow)[0] == 0
    assert ran(flow) == ["make", "ship", "ship"]


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("form", ["def", "async def"])
def test_a_phase_that_exits_is_no_end_of_the_workflow(run, flow, form, code):
    """Its 0 would say that all is done, its 1 that there is a report: 130 and a line say that it was interrupted."""
    flow.write_text(f"{FLOW}\n@flow.phase\n{form} quits():\n    raise SystemExit({code})\n")
    ready(flow)
    got, out, err = run("run", flow)
    assert (got, out) == (130, "")
    assert err.endswith(
        f"interrupted by sys.exit({code}); go on with: resilient-bridge workflow run {flow}\n"
    )
    assert "2 of 3 phases finished" in run("status", flow)[1]


@pytest.mark.real
def test_a_sync_phase_is_waited_for(run, flow):
    """Ctrl-C in a phase that cannot be stopped: it comes to its end, nothing runs beside it, and the next run goes on."""
    waits = "    import time\n    while (root / 'hold').exists():\n        time.sleep(0.01)\n    note('end')\n"
    flow.write_text(f"{FLOW}\n@flow.phase\ndef long():\n    note('long')\n{waits}")
    ready(flow)
    flow.with_name("hold").write_text("")
    child = _started(flow, "run", until=("make", "ship", "long"))
    child.send_signal(signal.SIGINT)
    time.sleep(0.2)
    assert child.poll() is None
    assert run("run", flow)[0] == 2
    flow.with_name("hold").unlink()
    child.communicate(timeout=30)
    assert child.returncode == 130
    assert ran(flow) == ["make", "ship", "long", "end"]
    assert run("run", flow)[0] == 0


@pytest.mark.real
def test_another_runner_at_work(run, flow):
    """Whoever would change something is told who has the file, with 2; status looks past it; the runner does not notice."""
    flow.with_name("wait").write_text("")
    child = _started(flow, "run", python=(sys.executable,))
    for action in ("run", "resume", "skip", "abort"):
        code, out, err = run(action, flow)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert f"in use by process {child.pid}" in err
    code, out, _ = run("status", flow, "--json")
    assert (code, json.loads(out)["current_phase"]) == (0, "ship")
    ready(flow)
    flow.with_name("wait").unlink()
    out, err = child.communicate(timeout=30)
    assert (child.returncode, err, ran(flow)) == (0, "", ["make", "ship"])
    assert out.startswith("demo completed")


@pytest.mark.real
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_report_that_cannot_be_written(run, flow):
    """One line and 2, no traceback; what was done is kept."""
    ready(flow)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*PYTHON, *COMMAND, "run", str(flow)],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert (
        done.stderr
        == "resilient-bridge workflow: cannot write the output: no space left on device\n"
    )
    assert run("status", flow)[0] == 0


@pytest.mark.real
def test_without_stderr_it_runs_all_the_same(run, flow):
    """`2>&-`: nobody to draw for."""
    ready(flow)
    command = ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, *COMMAND, "run", str(flow)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith("demo completed")


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"value": 7}', b"\x00\xff\xfe", b'"text"'])
def test_d08_status_of_a_damaged_file_is_one_line(run, flow, damage, tmp_path):
    """The library raises a typed StoreError that names the file and what helps; the command says it in one line."""
    assert run("run", flow)[0] in {0, 1}
    states = [
        path for path in tmp_path.iterdir() if path.suffix in {".json", ".bak"} and path.is_file()
    ]
    assert states
    for path in states:
        path.write_bytes(damage)
    code, out, err = run("status", flow)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert "run or resume" in err or "wanted a state document" in err
