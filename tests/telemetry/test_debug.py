"""Debug mode: the five kinds of the Gasoline specification, switched on by a setting or by the environment, found by its own three greps."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import re
import subprocess

import pytest

import resilient_bridge as rb
from resilient_bridge.cli import debugging
from resilient_bridge.telemetry import emit
from resilient_bridge.testing import simulate, virtual_time
from tests.peers.zygote import PYTHON
from tests.rows import each_row


pytestmark = pytest.mark.requirement("G10")
KINDS = ("connection", "circuit", "polling", "escalation", "correlation")


async def everything():
    """Make each kind of event happen, in the ways that a program does."""

    @rb.Policy(rb.Breaker.consecutive(1, open_for=5))
    def refused():
        raise ConnectionRefusedError(111, "refused")

    rb.capture(refused)
    looks = 0

    async def start(_name, _params, _correlation_id):
        return {"status": "pending"}

    async def poll(_correlation_id):
        nonlocal looks
        looks += 1
        if looks == 1:
            raise ConnectionResetError(104, "reset")
        return {"status": "complete", "result": 1} if looks > 5 else {"status": "pending"}

    command = await rb.agent.Commands(start, poll).start("audit")
    assert await command.result() == 1


async def outage(server):
    """A client that loses its connection and gets it back."""
    async with rb.BridgeClient(server.url, name="agent") as bridge:
        await bridge.wait_ready()
        await server.cut("abort", seconds=1.0)
        while bridge.state is rb.bridge.BridgeState.READY:
            await asyncio.sleep(0.1)
        await bridge.wait_ready(60)


def kinds_of(records):
    return {record.name.removeprefix("resilient_bridge.") for record in records} & set(KINDS)


async def _all():
    with virtual_time():
        await everything()


async def test_every_kind_has_its_logger_and_its_fields(caplog):
    """circuit, polling, escalation and correlation, each a record at debug with its fields as extra."""
    with rb.telemetry.Debug():
        await _all()
    records = [record for record in caplog.records if record.name.count(".") == 1]
    assert kinds_of(records) == set(KINDS) - {"connection"}
    assert {record.levelno for record in records} == {logging.DEBUG}
    (sent,) = [record for record in records if record.event_name == "CommandSent"]
    (answered,) = [record for record in records if record.event_name == "CommandAnswered"]
    assert sent.correlation_id == answered.correlation_id
    assert answered.status == "complete"
    assert answered.duration_ms > 2_000
    (failed,) = [record for record in records if record.event_name == "PollFailed"]
    assert failed.code == "CONN_RESET"


def test_a_connections_states_are_written(caplog):
    """From a simulated outage: each state with the name of the client and the depth of its queues."""
    with rb.telemetry.Debug("connection"):
        simulate(outage)
    records = [record for record in caplog.records if record.name == "resilient_bridge.connection"]
    assert [record.state for record in records if record.event_name == "StateChanged"].count(
        "READY"
    ) == 2
    assert {record.bridge for record in records} == {"agent"}
    assert {"Connected", "Disconnected", "ReconnectScheduled", "Resumed"} <= {
        record.event_name for record in records
    }


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "connection"])
async def test_one_kind_may_be_asked_for(kind, caplog):
    """And no other is written."""
    with rb.telemetry.Debug(kind):
        await _all()
    assert kinds_of(caplog.records) == {kind}


GREPS = (
    re.compile(r"timeout|escalate", re.IGNORECASE),
    re.compile(r"circuit.*open|circuit.*closed"),
    re.compile(r"duration_ms"),
)


async def test_the_three_greps_of_the_specification_find_their_lines(caplog, tmp_path):
    """In the debug log, and in a session log of JSON lines."""
    log = rb.stores.SessionLog(tmp_path / "gasoline-logs.jsonl", form="log")
    with rb.telemetry.Debug(), log:
        await _all()
    text = [record.getMessage() for record in caplog.records]
    lines = (tmp_path / "gasoline-logs.jsonl").read_text().splitlines()
    assert all(json.loads(line)["msg"] for line in lines)
    assert [line for line in text if "escalate" in line]
    for grep in GREPS:
        assert [line for line in text if grep.search(line)], grep
        assert [line for line in lines if grep.search(line)], grep


@each_row(
    ("environment", "kinds"),
    [
        ({}, ()),
        ({"DEBUG": "gasoline:*"}, KINDS),
        ({"DEBUG": "express:*,gasoline:circuit"}, ("circuit",)),
        (
            {"DEBUG": "gasoline:*,-gasoline:polling"},
            ("connection", "circuit", "escalation", "correlation"),
        ),
        ({"DEBUG": "1"}, ()),
        ({"DEBUG": "*"}, ()),
        ({"RESILIENT_BRIDGE_DEBUG": "connection, circuit"}, ("connection", "circuit")),
        ({"RESILIENT_BRIDGE_DEBUG": "*"}, KINDS),
        ({"RESILIENT_BRIDGE_DEBUG": "1"}, KINDS),
        ({"RESILIENT_BRIDGE_DEBUG": "0"}, ()),
        (
            {"RESILIENT_BRIDGE_DEBUG": "polling", "DEBUG": "gasoline:circuit"},
            ("circuit", "polling"),
        ),
    ],
)
def test_the_environment_says_which(environment, kinds):
    """Its own variable, and the one of the specification, of which only its own words count."""
    assert rb.telemetry.Debug.from_env(environment).kinds == kinds


@pytest.mark.parametrize(
    ("setting", "kinds"),
    [
        (None, ()),
        (False, ()),
        (0, ()),
        ("", ()),
        ("off", ()),
        (True, KINDS),
        (1, KINDS),
        ("*", KINDS),
        ("connection, circuit", ("connection", "circuit")),
        (["polling"], ("polling",)),
        ([], ()),
    ],
)
def test_a_setting_says_the_same(setting, kinds):
    """`debug` at the top of settings takes what the variable takes, and what a file says in its own ways; the variable wins."""
    data = {} if setting is None else {"debug": setting}
    config = rb.load(data)
    assert config.debug.kinds == kinds
    assert rb.load(rb.settings.dump(config)).debug.kinds == kinds
    env = {"RESILIENT_BRIDGE_DEBUG": "escalation"}
    assert rb.load(data, env=env).debug.kinds == ("escalation",)


def test_the_setting_writes_lines(caplog):
    """`with config.debug:` is debug mode, and off where settings do not ask for it."""
    with rb.load({}).debug:
        emit(rb.events.CircuitChanged(key="prices", state="closed", reason=""))
    assert not kinds_of(caplog.records)
    with rb.load({"debug": "circuit"}).debug:
        emit(rb.events.CircuitChanged(key="prices", state="closed", reason=""))
    assert kinds_of(caplog.records) == {"circuit"}
    assert rb.load({"preset": "gasoline"}, env={"DEBUG": "gasoline:*"}).debug.kinds == KINDS


@pytest.mark.parametrize(
    "setting", ["conection", ["circuit", "conection"], 5, {"circuit": True}, ["circuit", 2]]
)
def test_a_wrong_setting_is_refused_with_its_path(setting):
    """As is every other one."""
    with pytest.raises(rb.ConfigError, match=r"debug: wanted .*kinds out of connection, circuit"):
        rb.load({"debug": setting})
    with pytest.raises(rb.ConfigError, match=r"\(from RESILIENT_BRIDGE_DEBUG\)"):
        rb.load(env={"RESILIENT_BRIDGE_DEBUG": "conection"})


def test_the_command_line_follows_a_file(tmp_path):
    """`mcp --config` of a file with `debug` writes its lines on stderr; the variable wins."""
    path = tmp_path / "a.toml"
    for text, environment, wanted in [
        ("debug = true", {}, KINDS),
        ("", {}, ()),
        ("debug = true", {"RESILIENT_BRIDGE_DEBUG": "polling"}, ("polling",)),
        ("debug = 'wrong'", {}, ()),  # the command says what is wrong
    ]:
        path.write_text(text)
        arguments = argparse.Namespace(config=path)
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("RESILIENT_BRIDGE_DEBUG", raising=False)
            patch.delenv("DEBUG", raising=False)
            for name, value in environment.items():
                patch.setenv(name, value)
            assert getattr(debugging(arguments), "kinds", ()) == wanted


def test_a_wrong_word_is_named():
    """In the variable that is ours, and in code."""
    with pytest.raises(rb.ConfigError, match=r"RESILIENT_BRIDGE_DEBUG.*conection"):
        rb.telemetry.Debug.from_env({"RESILIENT_BRIDGE_DEBUG": "conection"})
    with pytest.raises(rb.ConfigError, match=r"Debug.*conection"):
        rb.telemetry.Debug("conection")


def test_nothing_asked_for_writes_nothing_and_listens_to_nothing(caplog):
    """An environment without it costs nothing."""
    from tests.internals.telemetry import HUB

    before = HUB.listening
    with rb.telemetry.Debug.from_env({}):
        assert HUB.listening == before
        rb.capture(rb.Policy(rb.Breaker.consecutive(1, open_for=5))(lambda: 1 / 0))
    assert kinds_of(caplog.records) == set()


def test_the_levels_of_the_loggers_are_restored():
    """The block changes nothing for after it."""
    logger = logging.getLogger("resilient_bridge.circuit")
    logger.setLevel(logging.ERROR)
    try:
        with rb.telemetry.Debug("circuit"):
            assert logger.level == logging.DEBUG
        assert logger.level == logging.ERROR
    finally:
        logger.setLevel(logging.NOTSET)


def _run(*argv, **environment):
    clean = {
        key: value
        for key, value in os.environ.items()
        if key not in ("DEBUG", "RESILIENT_BRIDGE_DEBUG")
    }
    return subprocess.run(
        [*PYTHON, *argv],
        capture_output=True,
        text=True,
        env=clean | environment,
        check=False,
        timeout=60,
    )


PROGRAM = """
import resilient_bridge as rb
with rb.telemetry.Debug.from_env():
    @rb.Policy(rb.Breaker.consecutive(1, open_for=5, key="daemon"))
    def refused():
        raise ConnectionRefusedError(111, "refused token=sk-abcdefgh12345678")
    rb.capture(refused)
"""


def test_without_a_set_up_of_logging_the_lines_go_to_stderr():
    """A program that set up nothing sees them all the same, and no secret."""
    errors = _run("-c", PROGRAM, DEBUG="gasoline:*").stderr
    assert GREPS[1].search(errors)
    assert "resilient_bridge.circuit" in errors
    assert "sk-abcdefgh12345678" not in errors
    assert "resilient_bridge.circuit" not in _run("-c", PROGRAM).stderr


def test_the_command_line_reads_it():
    """A wrong word ends it before anything starts."""
    wrong = _run("-m", "resilient_bridge", "backoff", "1", RESILIENT_BRIDGE_DEBUG="nonsense")
    assert wrong.returncode == 2
    assert "RESILIENT_BRIDGE_DEBUG" in wrong.stderr
    assert wrong.stdout == ""
    assert (
        _run("-m", "resilient_bridge", "backoff", "constant(1)", DEBUG="gasoline:*").returncode == 0
    )


@pytest.mark.parametrize("first_out", [0, 1])
def test_t03_blocks_that_overlap_restore_the_levels_together(first_out, caplog):
    """In whatever order they end: the second goes on logging, and after the last one the levels are as before."""
    names = ["resilient_bridge.circuit", "resilient_bridge.polling"]
    before = [logging.getLogger(name).level for name in names]
    blocks = [rb.telemetry.Debug("circuit"), rb.telemetry.Debug("circuit", "polling")]
    for block in blocks:
        block.__enter__()
    blocks.pop(first_out).__exit__(None, None, None)
    caplog.clear()
    emit(rb.events.CircuitChanged(key="k", state="closed", reason="reset"))
    assert [record.name for record in caplog.records if record.levelname == "DEBUG"] == [names[0]]
    blocks.pop().__exit__(None, None, None)
    assert [logging.getLogger(name).level for name in names] == before


def test_t03_the_handler_stays_until_the_last_block_has_ended(capsys):
    """Where logging is not set up: one handler for all."""
    logger = logging.getLogger("resilient_bridge")
    handlers, parents = logger.handlers, logger.propagate
    logger.handlers, logger.propagate = [], False
    try:
        one, other = rb.telemetry.Debug("circuit"), rb.telemetry.Debug("circuit")
        one.__enter__()
        other.__enter__()
        one.__exit__(None, None, None)
        emit(rb.events.CircuitChanged(key="k", state="closed", reason="reset"))
        assert len(logger.handlers) == 1
        other.__exit__(None, None, None)
        assert logger.handlers == []
    finally:
        logger.handlers, logger.propagate = handlers, parents
    assert capsys.readouterr().err.count("circuit closed") == 1
