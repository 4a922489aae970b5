"""The log's fields, as a formatter that is not ours prints them: structlog's, over the stdlib."""

from __future__ import annotations

import io
import json
import logging

import pytest
import structlog

import resilient_bridge as rb
from resilient_bridge.telemetry import emit
from tests.internals.telemetry import log_fields
from tests.reference import records
from tests.rows import each_row
from tests.stores.test_session_lines import example_of


pytestmark = pytest.mark.requirement("X9")
TAKEN = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "event"}


@pytest.fixture
def lines():
    """What structlog's JSON formatter writes of our logger, `extra` included."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.ExtraAdder()],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logger = logging.getLogger("resilient_bridge")
    logger.addHandler(handler)
    try:
        yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    finally:
        logger.removeHandler(handler)


def test_a_give_up_has_its_fields(lines):
    """The text is the message; code, category and what was called stand beside it."""
    failure = rb.Failure.of(
        "SYS_RATE_LIMITED", details={"provider_id": "anthropic", "http_status": 429}
    )
    emit(rb.events.GaveUp(name="ask", failure=failure, seconds=2.5))
    (line,) = lines()
    assert line.pop("event").startswith("gave up on ask")
    assert line == {
        "event_name": "GaveUp",
        "call": "ask",
        "duration": 2.5,
        "code": "SYS_RATE_LIMITED",
        "category": "UPSTREAM",
        "severity": "warning",
        "failure_kind": "transient",
        "retryable": True,
        "provider": "anthropic",
    }


@each_row("kind", records())
def test_no_event_has_a_field_that_logging_or_structlog_has_itself(kind):
    """Such a name would raise inside logging, and the line would be lost."""
    assert not set(log_fields(example_of(kind))) & TAKEN


def test_no_secret_is_a_field(lines):
    """Masked like the text."""
    emit(
        rb.events.StoreChanged(
            store="redis://:hunter22@host/",
            state="failed",
            degraded=True,
            failure=rb.Failure.of("CONN_RESET"),
        )
    )
    assert "hunter22" not in json.dumps(lines())
