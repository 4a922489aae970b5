"""Each line that an error advises is Python, and is accepted: nobody pastes one and reads the next error."""

from __future__ import annotations

import inspect
import re
import ssl
import sys
import warnings
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

import resilient_bridge as rb
from resilient_bridge.lazy_names import doors, found, names_of
from tests.failure.test_mistakes_in_code import MISTAKES, message_of
from tests.internals.failure import accepted_line, example, line_for_value, line_with
from tests.settings.refusals import GOLDEN


def function(*args: object, **kwargs: object) -> None:
    """Stand for a function of the reader's."""


async def async_function(*args: object, **kwargs: object) -> None:
    """Stand for an async one."""


READERS_OWN: dict[str, object] = {
    "ssl": ssl, "httpx": httpx, "token": "t0ken", "fingerprint": f"sha256:{'ab' * 32}", "dialect": rb.dialects.mattermost,
    **dict.fromkeys(
        ("fetch", "is_well", "hello", "ask_again", "reload", "cached_answer", "refresh_token"),
        function,
    ),
    "read_elsewhere": async_function,
}  # fmt: skip
"""The names in advised lines that only the reader can define."""

NO_EXAMPLE = {
    "BridgePolicy": "tools idempotent_if_marked",
    "ConnectionStates": "server extension circuit polling",
    "Dialect": (
        "auth auth_ack auth_error join joined request_replay ping pong ack epoch dedupes "
        "session_from_join superseded unreplayed codec max_frame_bytes subprotocols decode encode "
        "bearer positions resume waits_for_hello login pings silence confirms echo acknowledges "
        "acknowledge_within ends close_code"
    ),
    "Dialect.envelopes": "names",
    "End": "means close status code",
    "Outbox": "on_unknown on_new_session",
    "Positions": (
        "order per_channel contiguous repeats inclusive ends interleaves proof names_log distinct "
        "volatile"
    ),
    "Reconnect": (
        "first_connect connect_burst connects_per_minute reuse_address_on retry_certificates"
    ),
    "RedisState": "prefix retry_after",
    "Sidecar": (
        "cwd start_timeout deadline check concurrency rates circuit status_tool log_arguments"
    ),
}
"""Fields whose errors say in words what is wanted, and advise no line."""


def accepted(line: str) -> Any:
    """Evaluate a line as its reader would."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval(line, {"rb": rb, **READERS_OWN})


def golden_lines() -> list[str]:
    """The lines that the refusals advise."""
    advised = (
        line
        for row in GOLDEN.read_text().splitlines()
        for line in re.findall(r"; write (.*?)(?= \||$)", row)
    )
    return sorted(set(advised))


def test_each_line_that_a_refusal_advises_is_accepted() -> None:
    """Of all refusals in the golden file; each begins as a line of ours does."""
    lines, refused = golden_lines(), {}
    assert len(lines) > 200
    for line in lines:
        assert line.startswith("rb.")
        try:
            accepted(line)
        except Exception as error:  # noqa: BLE001 -- which, is in the list
            refused[line] = f"{type(error).__name__}: {error}"
    assert refused == {}


def fields() -> Iterator[tuple[str, str]]:
    """Each constructor of a public policy value, and each of its arguments."""
    for name in (name for door in ("", *doors()) for name in names_of(door)):
        kind = found(name)
        is_value = hasattr(kind, "__attrs_attrs__") and hasattr(kind, "evolve")
        if not isinstance(kind, type) or not is_value:
            continue
        methods = (
            method
            for method, made in vars(kind).items()
            if isinstance(made, classmethod) and not method.startswith(("_", "from_config"))
        )
        for constructor in ("", *methods):
            owner = f"{name}.{constructor}" if constructor else name
            taken = getattr(kind, constructor) if constructor else kind
            yield from ((owner, field) for field in inspect.signature(taken).parameters)


@pytest.mark.parametrize(("owner", "field"), [*fields()])
def test_the_example_of_each_field_is_accepted(owner: str, field: str) -> None:
    """A new field has an example that it accepts, or stands in NO_EXAMPLE."""
    text = example(owner, field)
    assert (text == "...") == (field in NO_EXAMPLE.get(owner, "").split())
    if text == "...":
        return
    if (owner, field) in {("Backoff", "shape"), ("Backoff", "seconds")}:
        return  # its schedules have constructors of their own, and those are advised
    line = line_with(f"{owner}.{field}", text)
    accepted(line)
    advised = line_for_value(f"{owner}.{field}", Unusable())
    assert advised
    accepted(advised)


class Unusable:
    """A value that no field takes."""


class TestALineWithAReceivedValue:
    """Is the line if the value is accepted, else has what is advised instead of the value."""

    @pytest.mark.parametrize(
        ("line", "mended"),
        [
            ("rb.Retry(attempts=3)", "rb.Retry(attempts=3)"),
            ("rb.Retry(attempts='3')", "rb.Retry(attempts=3)"),
            ("rb.Retry(attempts=nan)", "rb.Retry(attempts=4)"),
            ("@rb.Policy(rb.Retry(attempts=''))(idempotent=True)", "@rb.Policy(rb.Retry(attempts=4))(idempotent=True)"),
            ("rb.wrap(Ä(), policy=rb.Policy(rb.Timeout(-1)))", "rb.wrap(Ä(), policy=rb.Policy(rb.Timeout(10)))"),
            ("rb.Retry(attempts=0, on=('busy',))", "rb.Retry(attempts=1, on=(ConnectionError, 503))"),
            ("rb.Policy(rb.Retry(), rb.Retry())", "rb.Policy(rb.Retry())"),
            ("rb.presets.default.evolve(reconnect=5)", "rb.presets.default.evolve(reconnect=rb.bridge.Reconnect(attempts=5))"),
            ("rb.Retry(on=fetch, attempts=None)", "rb.Retry(on=fetch, attempts=4)"),
            ("rb.Policy(rb.Retry(), state=theirs)", "rb.Policy(rb.Retry(), state=theirs)"),
            ("rb.BridgeClient(url, store=int('bridge.db'))", ""),
            ("rb.HTTPTransport(no_such=nan)", ""),
            ("rb.Retry(on=(,))", ""),
            ("rb.Retry(no_such=1)", ""),
        ],
    )  # fmt: skip
    def test_is_mended(self, line: str, mended: str) -> None:
        """By what its own error advises, else by an example; empty if neither helps."""
        assert accepted_line(line, {}) == mended

    def test_knows_the_values_that_their_texts_do_not_say(self) -> None:
        """`timedelta()` stands for the one that was received."""
        known = {"timedelta()": timedelta(seconds=-1)}
        assert accepted_line("rb.Retry(attempts=timedelta())", known) == "rb.Retry(attempts=4)"
        known = {"timedelta()": timedelta(seconds=1)}
        line = "rb.Timeout(timedelta())"
        assert accepted_line(line, known) == line

    def test_runs_nothing_but_policy_values(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """No client is made and no function called, whatever the text says."""
        calls: list[object] = []
        monkeypatch.setattr(rb, "BridgeClient", lambda *args: calls.append(args))
        monkeypatch.setattr(sys, "exit", calls.append)
        accepted_line("rb.BridgeClient('ws://h', policy=rb.presets.default)", {})
        accepted_line("rb.Retry(on=len('x'), attempts=__import__('sys').exit(1))", {})
        accepted_line("rb.Fallback(lambda: sys.exit(1))", {"fetch()": calls.append})
        assert calls == []

    def test_warns_of_nothing(self) -> None:
        """The layers of a line may go together badly: that is said when they are used."""
        line = "rb.Policy(rb.Timeout(1, thread=True), rb.Bulkhead(1, max_wait=60))"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert accepted_line(line, {}) == line


def test_a_wrong_call_says_what_is_wrong_where_no_line_is_accepted() -> None:
    """Without a line the error still has what was wanted, and what was got."""
    with pytest.raises(rb.errors.ArgumentError, match=r"wanted attempts=, got tries=-1; write rb\.Retry\(attempts=4\)$"):  # fmt: skip
        rb.Retry(tries=-1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    with pytest.raises(rb.errors.ArgumentError, match=r"write retry\.evolve\(attempts=4\)$"):
        rb.Retry().evolve(tries="soon")


@pytest.mark.parametrize(
    ("mistake", "line"),
    [
        (lambda: rb.agent.Toolbox(timeout="soon"), "rb.agent.Toolbox(timeouts={'default': 10})"),
        (lambda: rb.agent.Toolbox(timeout=3), "rb.agent.Toolbox(timeouts={'default': 3})"),
        (lambda: rb.agent.Toolbox(timeouts=10**12), "rb.agent.Toolbox(timeouts={'search': 10})"),
        (lambda: rb.Retry(delay=timedelta(seconds=3)), "rb.Retry(backoff=rb.Backoff.exponential(timedelta(seconds=3)))"),
        (lambda: rb.Policy(on=re.compile("x")), "rb.Policy(rb.Retry(on=re.compile('x')))"),
        (lambda: rb.reconnecting(len, wait="soon"), "rb.reconnecting(len, patience=30)"),
        (lambda: rb.BridgeClient("ws://h", store=rb.Retry), 'rb.BridgeClient("wss://host/ws", store="bridge.db")'),
        (lambda: rb.BridgeClient("ws://h", session_id=rb.Retry), 'rb.BridgeClient("wss://host/ws", session_id="s1")'),
        (lambda: rb.reconnecting(function, patience="9" * 30), 'rb.reconnecting(lambda: Client("https://host/mcp"), patience=30)'),
    ],
)  # fmt: skip
def test_a_line_for_a_client_has_a_value_that_it_accepts(mistake: Any, line: str) -> None:
    """Links and tools as well, though none is made for a trial."""
    with pytest.raises(rb.ConfigError) as caught:
        mistake()
    assert str(caught.value).partition("; write ")[2] == line
    eval(line, {"rb": rb, "re": re, "timedelta": timedelta, "Client": function})


def test_the_lines_of_the_table_of_mistakes_are_accepted() -> None:
    """Those that begin with `rb.`; the others need an object of the reader's."""
    for expression, _ in MISTAKES:
        line = message_of(expression).partition("; write ")[2]
        if line.startswith("rb."):
            assert accepted_line(line, {}) == line
