"""Mistakes of a beginner in code, each with what its error says to write.

One table: what was written, and a fragment of the line to write that the message must hold. The
lines are those of the words of tenacity, stamina, backoff, Polly, pybreaker, circuitbreaker, httpx,
urllib3 and websockets, of wrong values, of positions, and of things used as something else.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

import pytest

import resilient_bridge as rb


class Client:
    """A client of somebody else's."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None: ...

    def ping(self) -> int:
        """Answer."""
        return 1


def function(*args: object, **kwargs: object) -> int:
    """Do anything."""
    return len(args) + len(kwargs)


def decorated(decorator: Any) -> Any:
    """Put a decorator on a function."""
    return decorator(function)


def entered(manager: Any) -> Any:
    """Use an object in a `with`."""
    with manager as value:
        return value


MISTAKES = [
    # tenacity, backoff and stamina
    ("rb.Retry(3)", "rb.Retry(attempts=3)"),
    ("rb.Retry(max_attempts=3)", "rb.Retry(attempts=3)"),
    ("rb.Retry(max_tries=3)", "rb.Retry(attempts=3)"),
    ("rb.Retry(retries=3)", "rb.Retry(attempts=4)"),
    ("rb.Retry(attemps=3)", "rb.Retry(attempts=3)"),
    ("rb.Retry(stop=3, wait=2)", "rb.Retry(attempts=3, backoff=rb.Backoff.constant(2))"),
    ("rb.Retry(attempts=3, wait_initial=0.5, wait_max=30)", "backoff=rb.Backoff.exponential(0.5, cap=30))"),
    ("rb.Retry(attempts=3, timeout=10)", "rb.Policy(rb.Deadline(10), rb.Retry(attempts=3))"),
    ("rb.Retry(attempts=3, reraise=True)", "rb.Retry(attempts=3)"),
    ("rb.Retry(ConnectionError)", "rb.Retry(on=ConnectionError)"),
    ("rb.Retry(retry_on=ValueError)", "rb.Retry(on=ValueError)"),
    ("rb.Retry(wait=[1, 2, 5])", "backoff=rb.Backoff.steps(1, 2, 5)"),
    ("rb.stop_after_attempt(3)", "rb.Retry(attempts="),
    ("rb.wait_exponential(1)", "rb.Backoff.exponential(1"),
    ("rb.retry(3)", "@rb.Policy(rb.Retry(attempts=4))(idempotent=True)"),
    ("rb.Backoff.expo(1)", "rb.Backoff.exponential(1"),
    ("rb.Backoff.exponential(multiplier=1, max=10)", "rb.Backoff.exponential(1, cap=10)"),
    # Polly
    ("rb.Retry(max_retry_attempts=3, delay=1, backoff_type='linear')", "attempts=4, backoff=rb.Backoff.linear(1)"),
    ("rb.Retry(delay=2, use_jitter=False)", "rb.Backoff.exponential(2, jitter='none')"),
    ("rb.Breaker(failure_ratio=0.5, minimum_throughput=8)", "rb.Breaker(rate=0.5, minimum=8)"),
    ("rb.Breaker(sampling_duration=30, break_duration=5)", 'rb.Breaker(window="30s", open_for=5)'),
    ("rb.Bulkhead(permit_limit=8, queue_limit=2)", "rb.Bulkhead(calls=8, queue=2)"),
    # pybreaker and circuitbreaker
    ("rb.CircuitBreaker", "rb.Breaker()"),
    ("rb.Breaker(5)", "rb.Breaker.consecutive(5)"),
    ("rb.Breaker(threshold=0.5)", "rb.Breaker(rate=0.5)"),
    ("rb.Breaker(fail_max=5, reset_timeout=60)", "rb.Breaker.consecutive(5, open_for=60)"),
    ("rb.Breaker(failure_threshold=5, recovery_timeout=30)", "rb.Breaker.consecutive(5, open_for=30)"),
    ("rb.Breaker(expected_exception=ValueError)", "rb.Breaker(on=ValueError)"),
    ("rb.Breaker(name='github')", "rb.Breaker(key='github')"),
    ("rb.Breaker().call(function)", "rb.Policy(rb.Breaker()).call("),
    # urllib3, requests and httpx
    ("rb.Retry(total=3, backoff_factor=2, status_forcelist=[502])", "attempts=4, on=[502], backoff=rb.Backoff.exponential(2)"),
    ("rb.HTTPTransport(retries=3)", "rb.HTTPTransport(policy=rb.Policy(rb.Retry(attempts=3)))"),
    ("rb.HTTPTransport(3)", "rb.HTTPTransport(rb.Policy(rb.Retry(attempts=3)))"),
    ("rb.HTTPTransport(rb.Retry())", f"rb.HTTPTransport(rb.Policy(rb.{rb.Retry()!r}))"),
    ("rb.HTTPTransport(rb.Retry)", "rb.HTTPTransport(rb.Policy(rb.Retry()))"),
    ("rb.HTTPTransport(timeout=10)", "httpx.AsyncClient(transport=rb.HTTPTransport(), timeout=10)"),
    ("rb.HTTPAdapter(max_retries=3)", "rb.HTTPAdapter(policy=rb.Policy(rb.Retry(attempts=3)))"),
    ("rb.HttpTransport", "rb.HTTPTransport"),
    # websockets and the clients that reconnect
    ("rb.BridgeClient()", 'rb.BridgeClient("wss://host/ws")'),
    ("rb.BridgeClient('localhost:8000')", 'rb.BridgeClient("ws://localhost:8000")'),
    ("rb.BridgeClient('http://localhost:8000/ws')", 'rb.BridgeClient("ws://localhost:8000/ws")'),
    ("rb.BridgeClient('https://example.com')", 'rb.BridgeClient("wss://example.com")'),
    ("rb.BridgeClient('ws://')", 'rb.BridgeClient("wss://host/ws")'),
    ("rb.BridgeClient(url='ws://h')", "rb.BridgeClient('ws://h')"),
    ("rb.BridgeClient('localhost', 8000)", 'rb.BridgeClient("ws://localhost:8000")'),
    ("rb.BridgeClient('ws://h', policy='recursor')", "policy=rb.presets.recursor"),
    ("rb.BridgeClient('ws://h', dialect='plain')", "dialect=rb.dialects.plain"),
    ("rb.BridgeClient('ws://h', store=Path)", 'store=Path("bridge.db")'),
    ("rb.BridgeClient('ws://h', store=rb.stores.SQLiteStore)", 'store=rb.stores.SQLiteStore("bridge.db")'),
    ("rb.BridgeClient('ws://h', policy=rb.Retry())", f"policy=rb.Policy(rb.{rb.Retry()!r})"),
    ("rb.BridgeClient('ws://h', extra_headers={'a': 'b'})", "headers={'a': 'b'}"),
    ("rb.BridgeClient('ws://h', ping_interval=20, ping_timeout=5)", "heartbeat=rb.bridge.Heartbeat(every=20, timeout=5)"),
    ("rb.BridgeClient('ws://h', open_timeout=5)", "rb.bridge.Reconnect(connect_timeout=5)"),
    ("rb.BridgeClient('ws://h', max_queue=5)", "inbox=rb.bridge.Inbox(max_messages=5)"),
    ("rb.BridgeClient('ws://h', max_size=5)", "rb.BridgeClient.over(lambda: websockets.connect(url, max_size=5))"),
    ("rb.BridgeClient('ws://h', maxReconnectionDelay=10)", "rb.Backoff.exponential(1, cap=10)"),
    ("rb.BridgeClient('ws://h', on_message=function)", "async for message in bridge"),
    ("rb.BridgeClient('ws://h', api_key='Zq8vN2xKp4')", "rb.BridgeClient('ws://h', token=token)"),
    ("rb.BridgeClient('ws://h', ssl=True)", "ssl=ssl.create_default_context()"),
    ("entered(rb.BridgeClient('ws://h'))", "async with rb.BridgeClient(url) as bridge:"),
    ("list(rb.BridgeClient('ws://h'))", "async for message in bridge:"),
    ("rb.BridgeClient('ws://h').connect()", "async with rb.BridgeClient(url) as bridge:"),
    ("rb.BridgeClient('ws://h').recv()", "async for message in bridge:"),
    ("rb.BridgeClient('ws://h').close()", "await bridge.aclose()"),
    ("rb.BridgeClient('ws://h').send('x', {})", "async with rb.BridgeClient(url) as bridge:"),
    ("rb.BridgeClient('ws://h').send()", 'await bridge.send("tool_result"'),
    ("rb.BridgeClient('ws://h').send(type='x', payload={})", "await bridge.send('x', {})"),
    ("rb.BridgeClient('ws://h').request('x', {}, 10)", "await bridge.request('x', {}, timeout=10)"),
    ("rb.BridgeClient('ws://h').request('x')", "await bridge.request('x', "),
    ("rb.BridgeClinet", "rb.BridgeClient"),
    ("rb.WebSocketClient", 'rb.BridgeClient("wss://host/ws")'),
    # links and wrapped clients
    ("rb.reconnecting(Client())", "rb.reconnecting(lambda: Client(...))"),
    ("rb.reconnecting('https://h')", "rb.reconnecting(lambda: Client('https://h'))"),
    ("rb.reconnecting(Client, retries=3)", "reconnect=rb.bridge.Reconnect(attempts=3)"),
    ("rb.reconnecting(Client, 'recursor')", "rb.presets.recursor"),
    ("entered(rb.reconnecting(Client))", "async with rb.reconnecting("),
    ("rb.wrap(Client)", "rb.wrap(Client())"),
    ("rb.wrap(function)", "@policy(idempotent=True)"),
    ("rb.wrap(Client())", "rb.wrap(Client(), methods=('ping',))"),
    ("rb.wrap(Client(), retries=3)", "policy=rb.Policy(rb.Retry(attempts=3))"),
    # policies and layers
    ("rb.Policy()", "rb.Policy(rb.Retry())"),
    ("rb.Policy([rb.Retry(attempts=2), rb.Timeout(3)])", "rb.Policy(rb.Retry(attempts=2), rb.Timeout(3))"),
    ("rb.Policy(rb.Retry)", "rb.Policy(rb.Retry())"),
    ("rb.Policy(retry=rb.Retry(attempts=2))", "rb.Policy(rb.Retry(attempts=2))"),
    ("rb.Policy(retries=3, timeout=10)", "rb.Policy(rb.Retry(attempts=3), rb.Timeout(10))"),
    ("rb.Policy(rb.Backoff.constant(1))", "rb.Policy(rb.Retry(backoff=rb.Backoff.constant(1)))"),
    ("rb.Policy(rb.presets.recursor)", "rb.presets.default.calls"),
    ("decorated(rb.Retry(attempts=3))", "@rb.Policy(rb.Retry(attempts=3))(idempotent=True)"),
    ("decorated(rb.Retry)", "@rb.Policy(rb.Retry())(idempotent=True)"),
    ("decorated(rb.Breaker())", "@rb.Policy(rb.Breaker())(idempotent=True)"),
    ("decorated(rb.Timeout(10))", "@rb.Policy(rb.Timeout(10))(idempotent=True)"),
    ("decorated(rb.Policy)", "@rb.Policy(rb.Retry())(idempotent=True)"),
    ("decorated(rb.resilient)", "@policy(idempotent=True)"),
    ("rb.resilient(attempts=3)", "rb.Policy(rb.Retry(attempts=3))(idempotent=True)"),
    ("rb.resilient(idempotent='yes')", "@policy(idempotent=True)"),
    ("rb.resilient.call(function)", "policy(idempotent=True).call(function)"),
    ("rb.resilient.replace(rb.Timeout)", "rb.Timeout(10)"),
    ("rb.resilient.replace(timeout=3)", "policy.replace("),
    ("rb.resilient.evolve(retries=3)", "policy.replace(rb.Retry(attempts=3))"),
    ("setattr(rb.Retry(), 'attempts', 3)", "retry = retry.evolve(attempts=3)"),
    ("rb.resilient.execute(function)", "policy(idempotent=True).call("),
    ("list(rb.resilient)", "for attempt in policy.attempts(idempotent=True):"),
    ("entered(rb.resilient)", "for attempt in policy.attempts(idempotent=True):"),
    ("rb.presets.recursor()", "write rb.presets.recursor"),
    ("rb.presets.recurser", "rb.presets.recursor"),
    ("rb.presets.default.evolve(reconect=rb.bridge.Reconnect())", "policy.evolve(reconnect=rb.bridge.Reconnect())"),
    # values
    ("rb.Retry(attempts='3')", "rb.Retry(attempts=3)"),
    ("rb.Retry(on='ConnectionError')", "rb.Retry(on=ConnectionError)"),
    ("rb.Retry(on=['TimeoutError', OSError])", "rb.Retry(on=TimeoutError)"),
    ("rb.Retry(on=Exception())", "rb.Retry(on=Exception)"),
    ("rb.Retry(on='transient')", "rb.Retry(on=rb.Kind.TRANSIENT)"),
    ("rb.Retry(on='429')", "rb.Retry(on=429)"),
    ("rb.Retry(on='httpx.ReadTimeout')", 'rb.Retry(on=rb.named("httpx", "ReadTimeout"))'),
    ("rb.Retry(on='CONN_TIMOUT')", 'rb.Retry(on="CONN_TIMEOUT")'),
    ("rb.Retry(rules={'CONN_TIMOUT': rb.Rule(attempts=2)})", '"CONN_TIMEOUT": rb.Rule(attempts='),
    ("rb.Retry(rules={429: 5})", "rb.Rule(attempts="),
    ("rb.Retry(backoff=2)", "rb.Retry(backoff=rb.Backoff.constant(2))"),
    ("rb.Retry(backoff='exponential')", "rb.Retry(backoff=rb.Backoff.exponential(1))"),
    ("rb.Retry(backoff=rb.Backoff.exponential)", "rb.Backoff.exponential(1"),
    ("rb.Retry(budget=0.2)", "rb.Retry(budget=rb.RetryBudget(ratio=0.2))"),
    ("rb.Breaker(rate=50)", "rb.Breaker(rate=0.5)"),
    ("rb.Timeout()", "rb.Timeout(10)"),
    ("rb.Timeout('abc')", "rb.Timeout(10)"),
    ("rb.Timeout('30')", "rb.Timeout(30)"),
    ("rb.Timeout(-1)", "rb.Timeout(10)"),
    ("rb.Timeout(10, 20)", "rb.Timeout.escalating(10, 20)"),
    ("rb.Deadline(None)", "rb.Deadline(60)"),
    ("rb.Deadline('1 minute')", 'rb.Deadline("1min")'),
    ("rb.Bulkhead('8')", "rb.Bulkhead(8)"),
    ("rb.Bulkhead(8, 2)", "rb.Bulkhead(8, queue=2)"),
    ("rb.RateLimit(10, 60)", "rb.RateLimit(10, per=60)"),
    ("rb.RateLimit('10/minute')", 'rb.RateLimit(10, per="1min")'),
    ("rb.Fallback('x')", "rb.Fallback(lambda *args, **kwargs: 'x')"),
    ("rb.Fallback(default=3)", "rb.Fallback(lambda *args, **kwargs: 3)"),
    ("rb.Backoff(1)", "rb.Backoff.exponential(1)"),
    ("rb.Backoff()", "rb.Backoff.exponential(1"),
    ("rb.Backoff.exponential(1, 30)", "rb.Backoff.exponential(1, cap=30)"),
    ("rb.Backoff.exponential(1, jitter=True)", 'rb.Backoff.exponential(1, jitter="full")'),
    ("rb.Backoff.exponental(1)", "rb.Backoff.exponential(1)"),
    ("rb.Backoff.steps([1, 2, 5])", "rb.Backoff.steps(1, 2, 5)"),
    ("rb.Backoff.exponential(1).sample(3)", "backoff.sample(3, seed=1)"),
    ("next(rb.Backoff.exponential(1))", "for wait in backoff.waits():"),
    # the rooms
    ("rb.Gap", "rb.bridge.Gap"),
    ("rb.Toolbox", "rb.agent.Toolbox"),
    ("rb.stores.SqliteStore", "rb.stores.SQLiteStore"),
    ("rb.bridge.Gaps", "rb.bridge.Gap"),
    ("rb.agent.Toolbox().call('x', x=1)", "await toolbox.call('x', "),
    ("rb.agent.Toolbox().run('x')", "await toolbox.call("),
    ("rb.agent.Toolbox().tool(3)", "@toolbox.tool(idempotent=True)"),
    ("rb.agent.Toolbox(timeout=3)", "rb.agent.Toolbox(timeouts={'default': 3})"),
    ("rb.agent.Workflow()", 'rb.agent.Workflow("state.json")'),
    ("rb.agent.Workflow('x.json').start()", "await flow.run()"),
    ("rb.agent.SpendBudget(max_usd=10)", "rb.agent.SpendBudget(limit=10)"),
    ("rb.stores.SQLiteStore()", 'rb.stores.SQLiteStore("bridge.db")'),
    ("rb.stores.RedisStore(host='localhost', port=6379)", 'rb.stores.RedisStore("redis://localhost:6379/0")'),
    ("rb.calls.circuit('x').open()", "circuit.isolate()"),
    ("rb.stores.RedisState('localhost')", 'rb.stores.RedisState("redis://localhost:6379/0")'),
    ("rb.links.stdio(['npx', 'server'])", "rb.links.stdio(*command)"),
    ("rb.bridge.Heartbeat(interval=30)", "rb.bridge.Heartbeat(every=30)"),
    ("rb.bridge.BridgePolicy(retry=rb.Retry())", f"calls=rb.Policy(rb.{rb.Retry()!r})"),
    ("rb.bridge.Reconnect(max_delay=30)", "rb.bridge.Reconnect(backoff=rb.Backoff.exponential(1, cap=30))"),
    ("rb.testing.virtual_time(3)", "rb.testing.virtual_time(seed=3)"),
    ("rb.testing.virtual_time().advance(1)", "with rb.testing.virtual_time() as clock:"),
    ("rb.named('httpx.ReadTimeout')", 'rb.named("httpx", "ReadTimeout")'),
    ("rb.BridgeError('boom')", "rb.BridgeError(rb.Failure.of('SYS_INTERNAL_ERROR', 'boom'))"),
    ("rb.BridgeError('AUTH_INVALID_TOKEN')", "rb.BridgeError(rb.Failure.of('AUTH_INVALID_TOKEN', 'what happened'))"),
    ("rb.load('nowhere/nope.toml')", "create it with a first line"),
    ("rb.listen('x')", "with rb.listen(print):"),
]  # fmt: skip


def message_of(expression: str) -> str:
    """Return the text of the error that an expression ends in."""
    names = {
        "rb": rb, "Client": Client, "function": function, "decorated": decorated, "entered": entered,
        "Path": Path, "timedelta": timedelta,
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            value = eval(expression, names)
            if inspect.iscoroutine(value):
                asyncio.run(_awaited(value))
        except (rb.BridgeError, AttributeError, TypeError) as error:
            return str(error)
    pytest.fail(f"{expression} was accepted")


async def _awaited(value: Any) -> Any:
    return await value


@pytest.mark.parametrize(("expression", "write"), MISTAKES, ids=[one for one, _ in MISTAKES])
def test_a_mistake_in_code_says_what_to_write(expression: str, write: str) -> None:
    """The message of each mistake holds the line to write, and is no bare message of Python's."""
    message = message_of(expression)
    assert write.replace('"', "'") in message.replace('"', "'"), message
    assert "not retryable" not in message


def test_a_line_to_write_can_be_read_by_python() -> None:
    """What stands behind `write` is Python, or a decorator or the head of a block."""
    for expression, _ in MISTAKES:
        _, write, line = message_of(expression).rpartition("; write ")
        line = line.removeprefix("await ").removeprefix("@")
        is_head = line.startswith(("async ", "for ", "with ", "policy(idempotent=True) above"))
        if write and not is_head:
            compile(line, expression, "exec")


def test_a_wrong_argument_is_a_type_error_and_a_config_error() -> None:
    """Those who catch Python's TypeError get it, and those who catch ConfigError, with its problems."""
    with pytest.raises(TypeError) as caught:
        rb.Retry(max_attempts=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    error = caught.value
    assert isinstance(error, rb.errors.ArgumentError)
    assert isinstance(error, rb.ConfigError)
    assert [problem.path for problem in error.problems] == ["Retry.max_attempts"]
    assert error.failure.details["violations"][0]["write"] == "rb.Retry(attempts=3)"


def test_an_error_inside_of_a_constructor_stays_what_it_is() -> None:
    """Only arguments that do not fit are explained: a TypeError of the user's own code is raised."""

    class Sized:
        def __len__(self) -> int:
            raise TypeError("mine")

    class Mine(rb.Retry):
        def __init__(self) -> None:
            len(Sized())

    with pytest.raises(TypeError, match=r"^mine$"):
        Mine()


def test_signatures_are_those_of_the_constructors() -> None:
    """A hover, `help` and `inspect` see the arguments, and no wrapper."""
    assert [*inspect.signature(rb.Timeout).parameters] == ["seconds", "thread", "idle"]
    assert [*inspect.signature(rb.Backoff.exponential).parameters] == [
        "base",
        "factor",
        "cap",
        "jitter",
    ]
    assert inspect.iscoroutinefunction(rb.BridgeClient.send)


def test_a_missing_name_is_an_attribute_error_and_costs_nothing_until_it_is_read() -> None:
    """`hasattr`, `getattr` with a default and imports work as they do without a hint."""
    assert not hasattr(rb, "CircuitBreaker")
    assert not hasattr(rb.Retry(), "retries")
    assert not hasattr(rb.BridgeClient("ws://h"), "__enter__")
    assert getattr(rb.Backoff, "expo", None) is None
    with pytest.raises(
        ImportError,
        match=r"cannot import name 'Gap' from 'resilient_bridge'; write rb\.bridge\.Gap",
    ):
        from resilient_bridge import Gap  # type: ignore[attr-defined]  # noqa: F401 # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]


SPANS: list[tuple[Any, float]] = [
    ("10s", 10), ("500ms", 0.5), ("5 min", 300), ("1m30s", 90), (timedelta(seconds=2), 2), (3, 3),
]  # fmt: skip


@pytest.mark.parametrize(("written", "seconds"), SPANS)
def test_a_duration_is_written_alike_everywhere(written: Any, seconds: float) -> None:
    """Code takes what settings take: a number, a timedelta, a text with a unit."""
    assert rb.Timeout(written).seconds == (seconds,)
    assert rb.Deadline(written).seconds == seconds
    assert rb.Backoff.exponential(written, cap=written).cap == seconds
    assert rb.Breaker(open_for=written).open_for == rb.Backoff.constant(seconds)
    assert rb.bridge.Heartbeat(every=written).every == seconds
    assert rb.RateLimit(10, per=written).per == seconds
    assert rb.load({"timeout": written}).bridge.calls is not None


def test_none_is_no_limit_and_never_zero() -> None:
    """Where None is allowed it means no limit; elsewhere it is refused with a line to write."""
    assert rb.Bulkhead(1).max_wait is None
    for make in (rb.Timeout, rb.Deadline):
        with pytest.raises(rb.ConfigError, match="got None; write"):
            make(None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_a_number_as_text_is_refused_in_code_with_the_number_to_write() -> None:
    """Without a unit a text does not say what it counts, so code asks for the number."""
    with pytest.raises(
        rb.ConfigError, match=re.escape("got '30'; write rb.bridge.Heartbeat(every=30)")
    ):
        rb.bridge.Heartbeat(every="30")


@pytest.mark.parametrize(
    ("table", "hint"),
    [
        ({"retry": {"wait_initial": 3}}, 'write backoff as in "exponential(1, cap=30)"'),
        ({"retry": {"max_tries": 3}}, "did you mean attempts?"),
        ({"retry": {"retries": 3}}, "did you mean attempts, which counts the first call as well?"),
        ({"breaker": {"recovery_timeout": 3}}, "did you mean open_for?"),
        ({"retry": {"reraise": True}}, "leave it out: your own error is always raised"),
    ],
)
def test_settings_know_the_same_words(table: dict[str, Any], hint: str) -> None:
    """The reader of settings uses the table of the constructors."""
    with pytest.raises(rb.ConfigError, match=re.escape(hint)):
        rb.load(table)


def test_a_secret_in_a_call_is_in_no_message() -> None:
    """Of a credential the line has a variable; the rest of the message has it masked."""
    for expression in ("rb.BridgeClient('ws://h', api_key='Zq8vN2xKp4Tt91Lw')", "rb.BridgeClient('localhost/ws?token=Zq8vN2xKp4Tt91Lw')"):  # fmt: skip
        assert "Zq8vN2xKp4" not in message_of(expression)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://hooks.example/services/T0K9/aB3xYz77", "wss://hooks.example/..."),
        ("https://hooks.example/agent/events", "wss://hooks.example/agent/events"),
    ],
)
def test_the_line_to_write_for_an_address_shows_no_secret_path(url: str, shown: str) -> None:
    """A path of plain words is kept; that of a webhook is the secret itself."""
    with pytest.raises(rb.ConfigError) as caught:
        rb.BridgeClient(url)
    assert str(caught.value).endswith(f'write rb.BridgeClient("{shown}")')


class Hostile:
    """An object that answers nothing that is asked of it."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize("value", [[], {}, Hostile()], ids=["a list", "a dict", "hostile"])
def test_a_line_that_cannot_be_made_hides_no_error(value: object) -> None:
    """Whatever was given, the error is the one for what is wrong."""
    with pytest.raises(rb.ConfigError, match=r"Timeout\.thread"):
        rb.Timeout(10, thread=value)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="tries"):
        rb.Retry(tries=value)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
