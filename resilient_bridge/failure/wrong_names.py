"""What to write for a public name, a method or an attribute that is not there.

Rule: nothing here is an alias; the text of an AttributeError is all that reads it.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Final

from attrs.exceptions import FrozenInstanceError

from ..lazy_names import address, doors, names_of
from .mistakes import advice, code, required_of, spelled


def _all(words: str, line: str) -> dict[str, str]:
    return {_plain(word): line for word in words.split()}


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


_RETRY: Final = "rb.Retry(attempts=4)"
_BACKOFF: Final = "rb.Backoff.exponential(1, cap=30)"
NAMES: Final[Mapping[str, str]] = {
    **_all("CircuitBreaker circuit_breaker breaker CircuitBreakerPolicy Circuit_Breaker CircuitBreakerStrategy", "rb.Breaker()"),
    **_all(
        "retry Retrying AsyncRetrying retrying RetryPolicy retry_call retry_context with_retry on_exception on_predicate "
        "retry_async async_retry RetryStrategy stamina tenacity backoff_on_exception retryable",
        "@rb.Policy(rb.Retry(attempts=4))(idempotent=True)",
    ),
    **_all("stop_after_attempt stop_never Retries max_retries attempts", _RETRY),
    **_all("stop_after_delay total_timeout Timelimit overall_timeout", "rb.Deadline(60)"),
    **_all("wait_exponential wait_random_exponential expo exponential exponential_backoff ExponentialBackoff ExponentialBackOff wait_exponential_jitter wait_random", _BACKOFF),
    **_all("wait_fixed fixed ConstantBackoff constant", "rb.Backoff.constant(2)"),
    **_all("wait_incrementing linear LinearBackoff", "rb.Backoff.linear(1)"),
    **_all("wait_chain steps", "rb.Backoff.steps(1, 2, 5)"),
    **_all("retry_if_exception_type retry_on_exception retry_if_exception", "rb.Retry(on=ConnectionError)"),
    **_all("retry_if_result retry_on_result", "rb.Retry(on_result=lambda result: result is None)"),
    **_all("RetryError MaxRetriesExceeded RetriesExceeded MaxRetryError GiveUp", "rb.BridgeError  # or your own error: it is raised as it was"),
    **_all("before_sleep_log before_log after_log add_listener on subscribe set_logger hooks", "rb.listen(print)"),
    **_all("Client AsyncClient WebSocketClient WebSocket WebSocketBridge connect ReconnectingWebSocket WebsocketClient Connection AsyncBridgeClient WSClient websocket Bridges BridgeConnection create_connection ws", 'rb.BridgeClient("wss://host/ws")'),
    **_all("serve Server WebSocketServer", "rb.testing.BridgeServer()"),
    **_all("reconnect auto_reconnect Reconnector ReconnectingClient resilient_client MCPClient ClientSession MCP McpClient", 'rb.reconnecting(lambda: Client("https://host/mcp"))'),
    **_all("protect instrument patch wrapped resilient_wrap wrap_client", "rb.wrap(AsyncOpenAI())"),
    **_all("timeout AttemptTimeout Timeouts TimeLimit with_timeout", "rb.Timeout(10)"),
    **_all("TimeoutError TimeoutException AsyncTimeoutError TimeoutExpired", "TimeoutError  # Python's own: rb.errors.AttemptTimeoutError is one"),
    **_all("ConnectionError ConnectionClosed ConnectionClosedError Disconnected", "ConnectionError  # Python's own: rb.errors.NotConnectedError is one"),
    **_all("CircuitBreakerError BreakerOpenError CircuitOpen CircuitBreakerOpen BrokenCircuitException CircuitError CircuitBreakerOpenError BreakerOpen", "rb.CircuitOpenError"),
    **_all("AsyncHTTPTransport RetryTransport HTTPRetryTransport AsyncTransport Transport ResilientTransport RetryingTransport httpx_transport", "rb.HTTPTransport()"),
    **_all("RequestsAdapter HTTPAdapters RetryAdapter", "rb.HTTPAdapter()"),
    **_all("AiohttpMiddleware aiohttp_middleware Middleware", "rb.HTTPMiddleware()"),
    **_all("Semaphore Limiter ConcurrencyLimiter concurrency_limit MaxConcurrency", "rb.Bulkhead(8)"),
    **_all("hedge Hedging HedgePolicy HedgingStrategy hedged", "rb.calls.Hedge(after=2)"),
    **_all("SingleFlight single_flight Coalesce coalesce Dedupe share StaleIfError stale_if_error", "rb.calls.Share(key=lambda query: query)"),
    **_all("RateLimiter rate_limiter Throttle throttle TokenBucket Limit", "rb.RateLimit(10, per=60)"),
    **_all("RateLimitError TooManyRequests RateLimitExceeded RateLimitedError", "rb.errors.ThrottledError"),
    **_all("fallback_to default", "rb.Fallback(cached_answer)"),
    **_all("Pipeline ResiliencePipeline compose combine policies PolicyWrap Wrap strategy Strategy pipeline ResiliencePipelineBuilder", "rb.Policy(rb.Retry(), rb.Breaker())"),
    **_all("budget TokenBudget Budget", "rb.RetryBudget(ratio=0.2)"),
    **_all("Config load_config from_file from_config Settings load_settings read_config from_toml", 'rb.load("settings.toml")'),
    **_all("explain_error explain error classify_error classifier", "rb.classify(error)"),
    **_all("tool", "rb.agent.Toolbox()"),
    **_all("preset recursor ccsetup gasoline openviber stdiobus", "rb.presets.recursor"),
    **_all("dialect plain jsonrpc", "rb.dialects.plain"),
    **_all("store SQLite sqlite FileStore DiskStore SqliteStore Storage", 'rb.stores.SQLiteStore("bridge.db")'),
    **_all("Redis RedisBackend RedisStorage", 'rb.stores.RedisStore("redis://localhost:6379/0")'),
    **_all("on_gap on_message events_stream", "rb.BridgeClient(url, on_gap=reload)"),
    **_all("mock MockClock FakeClock freeze VirtualClock fake_time time_machine", "rb.testing.virtual_time()"),
    **_all("stdio_client StdioServer Stdio", 'rb.links.stdio("npx", "-y", "server")'),
    **_all("proxy mcp_proxy run_proxy", 'rb.mcp.Sidecar(command="npx", args=("-y", "server"))'),
    **_all("try_call safe attempt result Result Ok outcome", "rb.capture(search, query)"),
    **_all("current context attempt_number get_attempt", "rb.current_attempt()"),
    **_all("metrics install_metrics Prometheus", "rb.telemetry.prometheus.install()"),
    **_all("tracing opentelemetry OpenTelemetry", "rb.telemetry.otel.install()"),
}  # fmt: skip
"""Names that people look for at the top level (or in a module), without case and underscores."""

_CALL: Final = "policy(idempotent=True).call(search, query)"
_SEND: Final = 'await bridge.send("tool_result", {"tool_call_id": "t1", "content": "ok"})'
_READ: Final = "async for message in bridge: ..."
_MEMBERS: Final[Mapping[str, Mapping[str, str]]] = {
    "Policy": {
        **_all("execute run invoke apply submit execute_async call_async acall run_async do perform", _CALL),
        **_all("wrap decorate protect decorator wraps", "@policy(idempotent=True)"),
        **_all("retry attempt attempting iter loop context retry_context", "policy.attempts(idempotent=True)"),
        **_all("add append add_layer with_layer add_retry then use compose and_then", "policy.replace(rb.Timeout(10))"),
        **_all("copy with_ set update clone", "policy.evolve(name='search')"),
        **_all("circuit breaker state_of is_open", "rb.calls.circuit(policy)"),
        **_all("on_retry on_failure add_listener listen", "rb.listen(print)"),
        **_all("describe show to_str summary_text", "policy.explain()"),
        **_all("load from_file from_toml parse from_dict", 'rb.Policy.from_config("settings.toml", "search")'),
        **_all("build make create", "rb.Policy(rb.Retry(), rb.Breaker())"),
        **_all("timeout", "policy.replace(rb.Timeout(10))"),
    },
    "Backoff": {
        **_all("fixed wait_fixed none constant_wait", "rb.Backoff.constant(2)"),
        **_all("expo fibonacci fibo random wait_exponential geometric exp jittered exponential_jitter full_jitter decorrelated_jitter", _BACKOFF),
        **_all("incrementing increment", "rb.Backoff.linear(1)"),
        **_all("custom list sequence chain schedule of", "rb.Backoff.steps(1, 2, 5)"),
        **_all("next_delay get_delay delay wait sleep next_wait compute get next_backoff calculate", "backoff.delays(6)"),
        **_all("from_string from_str load", 'rb.Backoff.parse("exponential(1, cap=30)")'),
        **_all("plot table show print", "print(backoff.explain())"),
    },
    "Breaker": {
        **_all("percentage failures count_based threshold in_a_row", "rb.Breaker.consecutive(5)"),
        **_all("rate_based time_based", "rb.Breaker(rate=0.5)"),
        **_all("call execute run protect decorate wrap call_async", "rb.Policy(rb.Breaker()).call(search)"),
        **_all("state is_open opened closed current_state reset close open isolate trip half_open", "rb.calls.circuit(policy).state"),
    },
    "Retry": {
        **_all("call execute run wrap decorate iter attempts_left", "rb.Policy(rb.Retry()).call"),
        **_all("retries max_attempts max_retries stop", "Retry.attempts"),
        **_all("wait delay", "Retry.backoff"),
    },
    "Timeout": {
        **_all("call run execute", "rb.Policy(rb.Timeout(10)).call(search)"),
        **_all("growing increasing steps", "rb.Timeout.escalating(2, 5, 30)"),
    },
    "BridgeClient": {
        **_all("connect open start run enter connected_client __enter__ create", "async with rb.BridgeClient(url) as bridge: ..."),
        **_all("close disconnect stop shutdown quit wait_closed", "await bridge.aclose()"),
        **_all("recv receive messages read listen iter get on_message next stream subscribe_messages", _READ),
        **_all("on add_listener add_event_listener subscribe_events on_event add_handler", "async for event in bridge.events(): ..."),
        **_all("emit publish write push send_message send_text send_bytes send_nowait post notify enqueue subscribe send_json", _SEND),
        **_all("call rpc query ask invoke execute", 'await bridge.request("git_status_request", {}, timeout=10)'),
        **_all("is_connected connected is_open ready is_ready closed open status get_state", "bridge.state"),
        **_all("ping latency is_alive is_healthy", "bridge.health()"),
        **_all("reconnect retry force_reconnect", "bridge.reconnect_now()"),
        **_all("wait wait_connected wait_for_connection wait_open until_ready join", "await bridge.wait_ready(timeout=10)"),
        **_all("outbox queue unacked unsettled queued", "bridge.pending()"),
        **_all("flush drain", "await bridge.aclose(drain=5)"),
        **_all("url uri address", "repr(bridge)"),
    },
    "Receipt": {
        **_all("wait result get join done ack acked acknowledged confirm wait_confirmed is_done is_confirmed ok wait_ack", "await receipt.confirmed(timeout=10)"),
        **_all("cancel abort undo revoke", "receipt.withdraw()"),
        **_all("status outcome", "receipt.state"),
        **_all("error exception", "receipt.failure"),
        **_all("key", "receipt.idempotency_key"),
        **_all("attempts retries", "receipt.sends"),
    },
    "Reconnecting": {
        **_all("connect open start", "async with link as client: ..."),
        **_all("close disconnect stop", "await link.aclose()"),
        **_all("client session call call_tool request send recv", "async with link as client: ...  # and call it: client.call_tool(...)"),
        **_all("is_connected connected status", "link.state"),
        **_all("wait wait_connected", "await link.wait_ready(timeout=10)"),
        **_all("reconnect", "link.reconnect_now()"),
        **_all("on listen add_listener", "async for event in link.events(): ..."),
    },
    "Circuit": {
        **_all("open trip force_open block", "circuit.isolate()"),
        **_all("close unblock force_close", "circuit.reset()"),
        **_all("is_open is_closed current_state status opened", "circuit.state"),
    },
    "Toolbox": {
        **_all("run execute invoke dispatch call_tool acall run_tool", 'await toolbox.call("search", {"query": "x"})'),
        **_all("add register add_tool register_tool function decorator tools", "@toolbox.tool(idempotent=True)"),
        **_all("schemas definitions to_openai specs list_tools get_tools", "toolbox.schema()"),
    },
    "Workflow": {
        **_all("start execute go begin launch", "await flow.run()"),
        **_all("step task stage add_phase add_step add node", "@flow.phase(artifacts=('plan.md',))"),
        **_all("restart continue_ load resume_from recover", "await flow.resume()"),
        **_all("cancel stop", "await flow.abort()"),
    },
    "VirtualTime": {
        **_all("sleep tick move_to shift forward", "clock.advance(10)"),
        **_all("sleeps slept_for total", "clock.slept"),
    },
}  # fmt: skip
"""What to write for a member that a class of ours has not, without case and underscores."""


class FrozenValueError(FrozenInstanceError):
    """A field of a value was assigned; its text says how a changed copy is made."""

    def __init__(self, value: object, name: str, assigned: object) -> None:
        """Take the value, the field, and what was to be assigned."""
        AttributeError.__init__(self)
        self._about = type(value).__name__, name, code(assigned)

    def __str__(self) -> str:
        """Return what was wanted, what was got, and what to write."""
        kind, name, text = self._about
        variable = "policy" if kind.endswith("Policy") else kind.lower()
        line = f"{variable} = {variable}.evolve({name}={text})"
        return f"{kind}: wanted a changed copy, as values stay as they are, got {name} = {text}; write {line}"


@advice("")
def hint(kind: str, of: Any, name: str) -> str:
    """Return what to write for a name that a module, or a class or its instances, has not.

    Empty if nobody can tell.
    """
    if name.startswith("_"):
        return ""
    return (
        _in_module(of.rpartition(".")[2] if "." in of else "", name)
        if kind == "module"
        else _member(of, name)
    )


def _in_module(door: str, name: str) -> str:
    plain = _plain(name)
    own = {_plain(each): each for each in _own(door)}
    if plain in own and (door or plain not in NAMES):
        return f"rb.{door}.{own[plain]}" if door else f"rb.{own[plain]}"
    if found := address(name):
        return found
    if plain in NAMES:
        return NAMES[plain]
    near = difflib.get_close_matches(plain, own, n=1, cutoff=0.7)
    if near:
        return f"rb.{door}.{own[near[0]]}" if door else f"rb.{own[near[0]]}"
    every = {_plain(each): each for each in _every()}
    near = difflib.get_close_matches(plain, every, n=1, cutoff=0.75)
    if near:
        return address(every[near[0]]) or ""
    near = difflib.get_close_matches(plain, NAMES, n=1, cutoff=0.8)
    return NAMES[near[0]] if near else ""


def _own(door: str) -> tuple[str, ...]:
    try:
        return names_of(door)
    except (ImportError, AttributeError):  # a room that is no door
        return ()


def _every() -> list[str]:
    return [name for door in ("", *doors()) for name in _own(door)]


def _member(kind: type, name: str) -> str:
    plain = _plain(name)
    for base in kind.__mro__:
        line = _MEMBERS.get(base.__name__, {}).get(plain)
        if line is not None:
            return line
    own = {_plain(each): each for each in _names(kind)}
    found = own.get(plain) or next(
        iter(own[each] for each in difflib.get_close_matches(plain, own, n=1, cutoff=0.7)), ""
    )
    return _written(kind, found) if found else ""


def _written(kind: type, name: str) -> str:
    """Return how one writes a member: a constructor with its class, a method with an object."""
    owner = f"{kind.__name__}.{name}"
    found = getattr(kind, name, None)
    if not callable(found) or isinstance(found, type):
        return spelled(owner)
    return f"{spelled(owner)}({required_of(owner, found)})"


def _names(kind: type) -> list[str]:
    return [name for name in dir(kind) if not name.startswith("_")]
