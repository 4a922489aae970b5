"""The words that people bring from other libraries, and what to write here instead.

Rule: plain tables, read when a mistake was made, by the constructors' errors and by the reader of
settings. A new word is one more entry.

An entry of `ARGUMENTS` is one of these:

- `attempts`: the argument's name here; `attempts+1`: the same, one more (retries are counted without
  the first call);
- `backoff.base`, `.cap`, `.factor`, `.jitter`, `.shape`, `.constant`: a part of the schedule;
- `Breaker.consecutive:failures`: another constructor, and its argument;
- `!why`: left out, for this reason;
- a line: `{}` is the user's value, `{line}` the call as it is without this argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final


def _all(words: str, meaning: str) -> dict[str, str]:
    return dict.fromkeys(words.split(), meaning)


_COUNT: Final = {
    **_all(
        "count number repeat max_attempts attempts_max max_tries tries attempt try_count stop_after_attempt max_calls stop "
        "maxAttempts numOfAttempts",
        "attempts",
    ),
    **_all(
        "retries max_retries max_retry max_retry_attempts retry_count num_retries total times "
        "maxRetries retry_attempts maxRetryAttempts reconnect_attempts max_reconnects max_reconnect_attempts "
        "retry_limit n_retries",
        "attempts+1",
    ),
}
_SCHEDULE: Final = {
    **_all("wait wait_strategy schedule intervals delays wait_generator", "backoff"),
    **_all(
        "delay wait_initial initial initial_delay base_delay base min_wait wait_min min_delay interval "
        "backoff_factor wait_exponential wait_random_exponential min multiplier sleep pause initial_interval reconnect_delay "
        "reconnectInterval minReconnectionDelay initial_wait retry_delay retry_interval backoff_base",
        "backoff.base",
    ),
    **_all("wait_fixed fixed fixed_delay", "backoff.constant"),
    **_all(
        "wait_max max_delay max_wait backoff_max max max_interval cap max_backoff maxReconnectionDelay "
        "maxReconnectInterval maxDelay max_value",
        "backoff.cap",
    ),
    **_all(
        "wait_exp_base exp_base factor backoff_multiplier exponent growth reconnectionDelayGrowFactor "
        "reconnectDecay backoff_rate",
        "backoff.factor",
    ),
    **_all("use_jitter jitter wait_jitter backoff_jitter randomize", "backoff.jitter"),
    **_all("backoff_type backoff_strategy strategy kind", "backoff.shape"),
    "exponential": "backoff.base",
}
_ON: Final = _all(
    "exceptions exception retry_on retry_on_exceptions retry_exceptions on_exceptions on_exception expected_exception expected_exceptions "
    "exception_types retry_if_exception_type retry_if handle should_handle status_forcelist "
    "statuses status_codes retry_on_status errors catch retry_for autoretry_for handled_exceptions exc",
    "on",
)
_LISTENERS: Final = _all(
    "before_sleep before after on_retry on_backoff on_giveup on_failure callback retry_error_callback on_success "
    "listeners on_state_change on_opened on_closed on_break on_reset on_half_open",
    "!events tell it: `with rb.listen(print):`",
)
_TOTAL: Final = _all(
    "timeout max_time stop_after_delay total_timeout deadline max_elapsed_time max_duration",
    "rb.Policy(rb.Deadline({}), {line})",
)
_RETRY: Final = {
    **_COUNT, **_SCHEDULE, **_ON, **_LISTENERS, **_TOTAL,
    **_all("retry_if_result retry_on_result result if_result predicate", "on_result"),
    "reraise": "!your own error is always raised after the last call",
    "raise_on_status": "!a returned failure is returned after the last call",
    "allowed_methods": "rb.HTTPTransport(rb.Policy({line}), idempotent={})",
    "method_whitelist": "rb.HTTPTransport(rb.Policy({line}), idempotent={})",
    "respect_retry_after_header": "!Retry-After is obeyed, up to max_retry_after= seconds",
    "respect_retry_after": "!Retry-After is obeyed, up to max_retry_after= seconds",
    "idempotent": "rb.Policy({line})(idempotent={})",
    "name": "rb.Policy({line}, name={})",
    "logger": "!waits and give-ups go to logging.getLogger('resilient_bridge')",
    "breaker": "rb.Policy({line}, {})", "circuit_breaker": "rb.Policy({line}, {})",
    "attempt_timeout": "rb.Policy({line}, rb.Timeout({}))",
    "retry_budget": "budget",
    "fallback": "rb.Policy(rb.Fallback({}), {line})",
}  # fmt: skip
_BREAKER: Final = {
    **_all(
        "failure_threshold fail_max failures max_failures threshold failure_count consecutive consecutive_failures "
        "consecutive_failure_threshold error_threshold max_fails",
        "Breaker.consecutive:failures",
    ),
    **_all(
        "recovery_timeout reset_timeout break_duration timeout open_timeout cooldown cool_down timeout_duration "
        "reset_after half_open_after wait_duration_in_open_state open_duration sleep_window retry_after recovery_time "
        "recovery",
        "open_for",
    ),
    **_all("failure_ratio failure_rate failure_rate_threshold error_rate ratio error_percentage", "rate"),
    **_all("minimum_throughput min_calls minimum_calls minimum_number_of_calls min_requests request_volume_threshold", "minimum"),
    **_all("sampling_duration time_window window_seconds rolling_window", "window.seconds"),
    **_all("sliding_window_size window_size buffer_size size", "window"),
    **_all("success_threshold half_open_max_calls permitted_calls half_open_calls half_open_requests", "probes"),
    **_all("slow_call_duration slow_threshold slow_call_threshold", "slow_after"),
    **_all("exclude excluded_exceptions ignore_exceptions ignored ignored_exceptions exclude_exceptions", "ignore"),
    **_ON, **_LISTENERS,
    "name": "key",
    "fallback_function": "rb.Policy(rb.Fallback({}), {line})", "fallback": "rb.Policy(rb.Fallback({}), {line})",
    "retries": "rb.Policy(rb.Retry(attempts={}), {line})",
}  # fmt: skip
_LAYERS: Final = {
    **_all("retry retries_policy", "rb.Policy({})"),
    **_all("retries max_retries", "rb.Policy(rb.Retry(attempts={}))"),
    **_all("attempts max_attempts tries", "rb.Policy(rb.Retry(attempts={}))"),
    **_all("timeout timeout_seconds", "rb.Policy(rb.Retry(), rb.Timeout({}))"),
    **_all("deadline total_timeout", "rb.Policy(rb.Deadline({}), rb.Retry())"),
    **_all("layers policies strategies breaker circuit_breaker bulkhead fallback rate_limit limiter", "rb.Policy({})"),
    "backoff": "rb.Policy(rb.Retry(backoff={}))", "wait": "rb.Policy(rb.Retry(backoff={}))",
    "on": "rb.Policy(rb.Retry(on={}))", "idempotent": "{line}(idempotent={})",
    "failure_threshold": "rb.Policy(rb.Retry(), rb.Breaker.consecutive({}))",
    "concurrency": "rb.Policy(rb.Bulkhead({}))", "max_concurrency": "rb.Policy(rb.Bulkhead({}))",
}  # fmt: skip
_DECORATED: Final = {
    **{word: "rb.Policy(rb.Retry(attempts={}))(idempotent=True)" for word, own in _COUNT.items() if own},
    **dict.fromkeys(("attempts", "retry"), "rb.Policy(rb.Retry(attempts={}))(idempotent=True)"),
    **_all("timeout deadline max_time", "rb.Policy(rb.Deadline({}), rb.Retry())(idempotent=True)"),
    **_all("on exceptions retry_on exception", "rb.Policy(rb.Retry(on={}))(idempotent=True)"),
    **_all("backoff wait", "rb.Policy(rb.Retry(backoff={}))(idempotent=True)"),
    **_all("delay wait_initial", "rb.Policy(rb.Retry(backoff=rb.Backoff.exponential({})))(idempotent=True)"),
    **_all("safe is_idempotent idempotency repeatable", "idempotent"),
    "failure_threshold": "rb.Policy(rb.Retry(), rb.Breaker.consecutive({}))(idempotent=True)",
    "fallback": "rb.Policy(rb.Fallback({}), rb.Retry())(idempotent=True)",
}  # fmt: skip
_CALLS_POLICY: Final = {
    **dict.fromkeys((*_COUNT, "attempts"), "policy=rb.Policy(rb.Retry(attempts={}))"),
    **_all("retry retry_policy breaker circuit_breaker resilience", "policy=rb.Policy({})"),
    **_all("timeout total_timeout", "policy=rb.Policy(rb.Retry(), rb.Timeout({}))"),
    "deadline": "policy=rb.Policy(rb.Deadline({}), rb.Retry())",
    **_all("backoff wait", "policy=rb.Policy(rb.Retry(backoff={}))"),
    **_all("backoff_factor delay", "policy=rb.Policy(rb.Retry(backoff=rb.Backoff.exponential({})))"),
    "status_forcelist": "policy=rb.Policy(rb.Retry(on={}))", "on": "policy=rb.Policy(rb.Retry(on={}))",
}  # fmt: skip
_HTTP: Final = {
    **_CALLS_POLICY,
    **_all("allowed_methods safe methods", "idempotent"),
    **_all("transport wrapped base_transport wrapped_transport inner_transport adapter", "inner"),
    "proxies": "proxy",
    "proxy_url": "proxy",
    "ssl": "verify",
    "ssl_context": "verify",
    "max_connections": "limits=httpx.Limits(max_connections={})",
    "pool_maxsize": "!pass it to requests.adapters.HTTPAdapter",
}
_TIMEOUT_HTTP: Final = {
    "timeout": "httpx.AsyncClient(transport={line}, timeout={})",
    "base_url": "httpx.AsyncClient(transport={line}, base_url={})",
    "headers": "httpx.AsyncClient(transport={line}, headers={})",
}
_RECONNECT: Final = {
    **_COUNT, **_SCHEDULE, **_LISTENERS,
    **_all("max_retries retries maxRetries reconnect_attempts max_reconnects max_reconnect_attempts", "attempts"),
    **_all("timeout open_timeout connection_timeout connectionTimeout", "connect_timeout"),
    **_all("min_uptime minUptime stable_time reset_after", "stable_after"),
    **_all("on_give_up exhausted give_up", "on_exhausted"),
    **_all("grace_period linger", "grace"),
}  # fmt: skip
_LINK: Final = {
    **dict.fromkeys(
        (*_COUNT, "attempts"),
        "policy=rb.presets.default.evolve(reconnect=rb.bridge.Reconnect(attempts={}))",
    ),
    **{
        word: "policy=rb.presets.default.evolve(reconnect=rb.bridge.Reconnect(backoff=rb.Backoff.exponential({})))"
        for word, own in _SCHEDULE.items()
        if own == "backoff.base"
    },
    **{
        word: "policy=rb.presets.default.evolve(reconnect=rb.bridge.Reconnect(backoff=rb.Backoff.exponential(1, cap={})))"
        for word, own in _SCHEDULE.items()
        if own == "backoff.cap"
    },
    **_all(
        "backoff wait",
        "policy=rb.presets.default.evolve(reconnect=rb.bridge.Reconnect(backoff={}))",
    ),
    **_all("auto_reconnect autoreconnect reconnecting", "!it reconnects by itself"),
    "reconnect": "policy=rb.presets.default.evolve(reconnect=rb.bridge.Reconnect())",
    **_all("retry breaker", "policy=rb.presets.default.evolve(calls=rb.Policy({}))"),
    **_all("preset", "policy=rb.presets.{name}"),
    "heartbeat": "policy=rb.presets.default.evolve(heartbeat=rb.bridge.Heartbeat(every={}))",
    **_all(
        "ping_interval heartbeat_interval keepalive pingInterval keepalive_interval",
        "policy=rb.presets.default.evolve(heartbeat=rb.bridge.Heartbeat(every={}))",
    ),
    **_all(
        "ping_timeout heartbeat_timeout pong_timeout keepalive_timeout",
        "policy=rb.presets.default.evolve(heartbeat=rb.bridge.Heartbeat(timeout={}))",
    ),
    **_all(
        "open_timeout connect_timeout connection_timeout connectionTimeout",
        "policy=rb.presets.default.evolve(reconnect=rb.bridge.Reconnect(connect_timeout={}))",
    ),
}
_BRIDGE: Final = {
    **_LINK,
    **_all("extra_headers additional_headers header", "headers"),
    **_all("api_key auth_token access_token bearer bearer_token authorization", "token"),
    "auth": "token",
    **_all("uri endpoint address host server", "url"),
    **_all("persist storage path db queue database store_path", "store"),
    **_all("sslopt ssl_context context tls", "ssl"),
    **_all("session", "session_id"),
    "verify": "ssl=ssl.create_default_context()",
    "max_queue": "policy=rb.presets.default.evolve(inbox=rb.bridge.Inbox(max_messages={}))",
    **_all("outbox maxEnqueuedMessages max_pending", "policy=rb.presets.default.evolve(outbox=rb.bridge.Outbox(max_messages={}))"),
    "timeout": "policy=rb.presets.default.evolve(reconnect=rb.bridge.Reconnect(connect_timeout={}))",
    "close_timeout": "!give it to the end: `await bridge.aclose(drain=5)`",
    **_all("max_size compression write_limit read_limit proxy origin user_agent_header subprotocols protocols sock",
           "rb.BridgeClient.over(lambda: websockets.connect(url, {word}={}))"),
    **_all("on_message on_data handler", "!read them: `async for message in bridge: ...`"),
    **_all("on_open on_connected", "on_connect"),
    **_all("on_close on_disconnect on_error on_reconnect", "!events tell it: `async for event in bridge.events(): ...`"),
    "logger": "!waits and losses go to logging.getLogger('resilient_bridge')",
    **_all("protocol codec format", "dialect"),
}  # fmt: skip
_LIMIT: Final = {
    **_all(
        "max_calls permits limit rate max_rate requests tokens capacity max_requests n times",
        "calls",
    ),
    **_all(
        "period window time_period interval seconds time_window per_seconds duration replenishment_period",
        "per",
    ),
    **_all("timeout wait max_delay block", "max_wait"),
    "name": "key",
}
_BULKHEAD: Final = {
    **_all(
        "max_concurrent max_concurrency concurrency limit permits permit_limit max_parallelization max_calls size "
        "max_workers max_concurrent_calls max_connections value n",
        "calls",
    ),
    **_all("queue_limit max_queuing_actions max_queue queue_size max_waiting queued", "queue"),
    **_all("timeout wait max_wait_duration max_wait_time queue_timeout", "max_wait"),
    "name": "key",
}
_TOOLBOX: Final = {
    **_CALLS_POLICY,
    **_all("timeout default_timeout", "timeouts={{'default': {}}}"),
    "tools": "!add each: `@toolbox.tool(idempotent=True)` above the function",
    "functions": "!add each: `@toolbox.tool(idempotent=True)` above the function",
}
_TOOL: Final = {
    **_CALLS_POLICY, "timeout": "timeout",
    **_all("safe read_only repeatable", "idempotent"),
    **_all("description schema parameters", "!the docstring and the annotations of the function say it"),
    **_all("optional", "required"),
}  # fmt: skip

ARGUMENTS: Final[Mapping[str, Mapping[str, str]]] = {
    "Retry": _RETRY,
    "Rule": {
        **_COUNT,
        **_SCHEDULE,
        "on_retry": "before",
        "callback": "before",
        "refresh": "before",
    },
    "Breaker": _BREAKER,
    "Breaker.consecutive": {
        **_BREAKER,
        **_all("failure_threshold fail_max failures max_failures threshold", "failures"),
    },
    "Policy": _LAYERS,
    "Policy.__call__": _DECORATED,
    "Policy.attempts": _DECORATED,
    "Policy.replace": {
        word: line.replace("rb.Policy(", "policy.replace(", 1) for word, line in _LAYERS.items()
    },
    "Timeout": {
        **_all("timeout value limit total duration time delay deadline", "seconds"),
        **_all("connect read write pool", "seconds"),
        **_all("use_threads in_thread threaded", "thread"),
        "per_chunk": "idle",
        "name": "rb.Policy({line}, name={})",
    },
    "Deadline": _all(
        "timeout value limit total duration time max_time max_delay deadline", "seconds"
    ),
    "Bulkhead": _BULKHEAD,
    "RateLimit": _LIMIT,
    "RetryBudget": {
        **_all("percent percentage max_ratio retry_ratio budget", "ratio"),
        **_all("max_retries min_retries tokens minimum min_per_second retries", "floor"),
        "name": "key",
    },
    "Fallback": {
        **_all(
            "default value default_value result fallback_value",
            "rb.Fallback(lambda *args, **kwargs: {})",
        ),
        **_all("function fallback handler action fallback_action", "rb.Fallback({})"),
        **_ON,
        **_all("on_fallback", "acknowledge"),
    },
    "Backoff": {
        **_all(
            "base delay initial seconds min multiplier initial_delay wait_initial",
            "Backoff.exponential:base",
        ),
        **_all("max max_delay wait_max", "cap"),
        **_all("exp_base", "factor"),
    },
    "Backoff.exponential": {
        **_all("max max_delay max_wait maximum max_value wait_max upper limit", "cap"),
        **_all(
            "multiplier min initial delay start wait_initial base_delay initial_delay seconds",
            "base",
        ),
        **_all("exp_base exponent growth wait_exp_base ratio", "factor"),
        **_all("randomize use_jitter wait_jitter", "jitter"),
    },
    "Backoff.linear": {
        **_all("max max_delay max_wait maximum wait_max", "cap"),
        **_all("start initial increment base delay min", "step"),
        **_all("randomize use_jitter", "jitter"),
    },
    "Backoff.decorrelated": {
        **_all("max max_delay max_wait maximum wait_max", "cap"),
        **_all("min initial delay start multiplier", "base"),
        "jitter": "!a decorrelated schedule is random by itself",
    },
    "Backoff.constant": {
        **_all("wait delay interval base value", "seconds"),
        **_all("use_jitter", "jitter"),
    },
    "Backoff.steps": _all("after rest", "then"),
    "BridgeClient": _BRIDGE,
    "BridgeClient.over": _BRIDGE,
    "BridgeClient.send": {
        **_all("timeout expires expires_after expiration", "ttl"),
        **_all("key idempotency_token dedupe_id message_id", "idempotency_key"),
        **_all("retries retry", "!it is sent again after each loss, with the same key"),
        **_all("data body message content json", "payload"),
        **_all("event name", "type"),
    },
    "BridgeClient.request": {
        **_all("data body message params json", "payload"),
        **_all("wait deadline", "timeout"),
        **_all("safe retry", "idempotent"),
        "retries": "!with idempotent=True it is repeated after a loss",
        **_all("method event name", "type"),
    },
    "reconnecting": {
        **_LINK,
        **_all("timeout wait max_wait wait_timeout", "patience"),
        **_all("client connect url make", "factory"),
        **_all("safe repeatable retry_safe", "idempotent"),
    },
    "wrap": {
        **_CALLS_POLICY,
        **_all("safe repeatable", "idempotent"),
        **_all("functions only names", "methods"),
        **_all("obj target sdk", "client"),
    },
    "HTTPTransport": {**_HTTP, **_TIMEOUT_HTTP},
    "HTTPAdapter": _HTTP,
    "HTTPMiddleware": _HTTP,
    "Reconnect": _RECONNECT,
    "Heartbeat": {
        **_all("interval ping_interval seconds period heartbeat_interval", "every"),
        **_all("ping_timeout pong_timeout", "timeout"),
    },
    "Outbox": {
        **_all("max_size maxsize size limit capacity max_queue n", "max_messages"),
        **_all("on_full when_full policy strategy", "overflow"),
    },
    "Inbox": _all("max_size maxsize size limit capacity max_queue n", "max_messages"),
    "BridgePolicy": {
        **dict.fromkeys((*_COUNT, "attempts"), "reconnect=rb.bridge.Reconnect(attempts={})"),
        **_all("retry breaker policy", "calls=rb.Policy({})"),
        **_all("ping_interval", "heartbeat=rb.bridge.Heartbeat(every={})"),
        **_all("backoff", "reconnect=rb.bridge.Reconnect(backoff={})"),
    },
    "Toolbox": _TOOLBOX,
    "Toolbox.tool": _TOOL,
    "ToolboxSettings": {"effects": "!write a table of its own, [effects]"},
    "Workflow": _all("file state checkpoint checkpoint_path filename state_file name", "path"),
    "Workflow.phase": {
        **_all("requires needs depends_on inputs after", "required"),
        **_all("outputs produces files", "artifacts"),
        **_CALLS_POLICY,
    },
    "SpendBudget": _all("max max_usd budget max_cost amount total max_spend usd", "limit"),
    "ContextGuard": {
        **_all("max_tokens tokens max window context_window", "limit"),
        **_all("tokenizer counter count_tokens encoder", "count"),
    },
    "SQLiteStore": _all("file filename database db url", "path"),
    "StateFile": _all("file filename", "path"),
    "RedisStore": {
        **_all("uri redis redis_url dsn", "url"),
        "host": 'url="redis://{name}:6379/0"',
        "port": "!it is in the url",
    },
    "MachineState": _all("file filename", "path"),
    "RedisState": {
        **_all("uri redis redis_url dsn", "url"),
        "host": 'url="redis://{name}:6379/0"',
        "port": "!it is in the url",
    },
    "BridgeServer": _all("address listen", "host"),
    "stdio": _all("command cmd args argv program", "rb.links.stdio({})"),
    "Sidecar": {
        **_all("cmd program args argv", "command"),
        **_all("uri endpoint server", "url"),
    },
}
"""What to write for a foreign argument, by class, function or method."""

POSITIONS: Final[Mapping[str, str]] = {
    "Retry": "attempts backoff",
    "Rule": "attempts backoff",
    "Breaker": "Breaker.consecutive:failures open_for",
    "Backoff": "Backoff.exponential:base cap",
    "Backoff.exponential": "base cap factor",
    "Backoff.linear": "step cap",
    "Backoff.decorrelated": "base cap",
    "RateLimit": "calls per",
    "Bulkhead": "calls queue",
    "RetryBudget": "ratio floor",
    "Heartbeat": "every timeout",
    "Reconnect": "attempts backoff",
    "Outbox": "max_messages",
    "Inbox": "max_messages",
    "BridgeClient": "url token",
    "BridgeClient.request": "type payload timeout",
    "Backoff.sample": "n seed",
    "BridgePolicy": "reconnect",
    "BridgeServer": "host port",
    "ContextGuard": "limit count",
}
"""The arguments that people give by position, in that order; a constructor first, if it is another."""

_URL: Final = '"wss://host/ws"'
DURATIONS: Final[Mapping[str, str]] = {
    "max_retry_after": "120", "seconds": "10", "idle": "5", "max_wait": "2", "per": "60", "window": "50",
    "open_for": "30", "slow_after": "5", "lease": "30", "base": "1", "step": "1", "cap": "30", "steps": "1",
    "ttl": "60", "timeout": "10", "drain": "5", "patience": "30", "every": "15", "probe_timeout": "1.5",
    "connect_timeout": "10", "grace": "300", "stable_after": "30", "read_timeout": "60", "wait": "5",
    "interval": "5", "overlap": "300", "quiet": "2", "resend_within": "270", "max_seconds": "120",
    "restore_after": "60",
}  # fmt: skip
"""The same for the arguments that are durations."""

EXAMPLES: Final[Mapping[str, str]] = {
    **DURATIONS,
    "attempts": "4", "on": "(ConnectionError, 503)", "backoff": "rb.Backoff.exponential(1, cap=30)",
    "rules": "{429: rb.Rule(attempts=6)}", "on_result": "lambda result: result is None",
    "budget": "rb.RetryBudget(ratio=0.2)", "before": "refresh_token", "thread": "True", "calls": "8",
    "queue": "10", "rate": "0.5", "probes": "1", "shadow": "True", "ignore": "(404,)", "minimum": "10", "key": '"github"',
    "name": '"search"', "failures": "5", "ratio": "0.2", "floor": "10", "acknowledge": "lambda failure: True",
    "may_have_run": "True", "factor": "2", "jitter": '"full"', "then": "rb.Backoff.exponential(10, cap=60)",
    "ladder": "cached_answer", "layers": "rb.Retry()", "shape": '"exponential"', "n": "6", "seed": "1",
    "function": "f", "idempotent": "True", "url": _URL, "client": "AsyncOpenAI()",
    "factory": 'lambda: Client("https://host/mcp")', "policy": "rb.presets.default",
    "dialect": "rb.dialects.plain", "store": '"bridge.db"', "token": "token", "headers": '{"X-Tenant": "a"}',
    "session_id": '"s1"', "on_gap": "reload", "on_doubt": "ask_again", "on_connect": "hello",
    "backfill": "fetch", "health_check": "is_well", "pin": "fingerprint",
    "ssl": "ssl.create_default_context()", "version": "1", "receive": "False", "type": '"tool_result"',
    "payload": '{"tool_call_id": "t1", "content": "ok"}', "idempotency_key": '"key-1"',
    "methods": '("search",)', "timeouts": "{'search': 10}", "arguments": '{"query": "x"}',
    "path": '"state.json"', "limit": "10", "count": "count_tokens",
    "reconnect": "rb.bridge.Reconnect(attempts=5)", "heartbeat": "rb.bridge.Heartbeat(every=15)",
    "outbox": "rb.bridge.Outbox()", "inbox": "rb.bridge.Inbox()", "replay": "rb.bridge.Replay()",
    "max_messages": "1000", "overflow": '"raise"', "on_exhausted": '"suspend"', "listener": "print",
    "source": '"settings.toml"', "error": "error", "package": '"httpx"', "of": '"github"', "target": "search",
    "main": "main", "host": '"127.0.0.1"', "port": "0", "target_host": '"127.0.0.1"', "target_port": "8000",
    "command": '"npx", "-y", "server"', "rows": "100", "max_bytes": "{'call_tool': 1_000_000}",
    "required": '("plan.md",)', "artifacts": '("plan.md",)',
    "state": 'rb.stores.RedisState("redis://localhost:6379/0")', "health": '"http://127.0.0.1:8000/health"',
    "start": "start", "poll": "poll", "field": '"seq"', "ask": "ask", "answers": "True",
    "trust_hints": "True", "allow_plaintext_credentials": "True", "text": '"exponential(1, cap=30)"',
    "idempotency_header": '"Idempotency-Key"', "tool": '"search"', "inner": "httpx.AsyncHTTPTransport()",
    "limits": "httpx.Limits(max_connections=10)", "http2": "True", "verify": "True", "trust_env": "False",
    "proxy": '"http://127.0.0.1:8080"', "env": "True", "value": "rb.Retry()",
}  # fmt: skip
"""A value for each argument that a line needs, or that was refused, as one writes it."""

OWN_EXAMPLES: Final[Mapping[str, str]] = {
    "RateLimit.calls": "10",
    "AdaptiveLimit.start": "8",
    "AdaptiveLimit.most": "64",
    "AdaptiveLimit.least": "1",
    "AdaptiveLimit.throttle": "2",
    "AdaptiveLimit.key": '"our quota"',
    "Hedge.after": "2",
    "Hedge.budget": "0.05",
    "Hedge.most": "1",
    "Hedge.to": "read_elsewhere",
    "Share.key": "lambda query: query",
    "Share.fresh_for": "10",
    "Share.stale_for": "300",
    "Share.most": "1024",
    "Backoff.constant.seconds": "2",
    "Backoff.steps.seconds": "1, 2, 5",
    "BridgePolicy.idempotent": '("search",)',
    "Dialect.answers": "False",
    "Dialect.error": '"error"',
    "Dialect.replay": '"replay"',
    "Inbox.max_bytes": "8_388_608",
    "Inbox.overflow": '"resync"',
    "Outbox.max_bytes": "8_388_608",
    "Replay.max_bytes": "8_388_608",
    "Toolbox.idempotent": '("search",)',
    "Toolbox.max_bytes": "8_388_608",
    "Deadline.seconds": "60",
    "RedisStore.url": '"redis://localhost:6379/0"',
    "RedisState.url": '"redis://localhost:6379/0"',
    "EventSource.client": "httpx.AsyncClient()",
    "EventSource.url": '"https://host/events"',
    "MachineState.path": '"~/.cache/app/limits"',
    "SQLiteStore.path": '"bridge.db"',
    "Sidecar.url": '"https://host/mcp"',
    "Toolbox.policy": "rb.resilient",
    "HTTPTransport.policy": "rb.resilient",
    "HTTPAdapter.policy": "rb.resilient",
    "HTTPMiddleware.policy": "rb.resilient",
    "wrap.policy": "rb.resilient",
    "BridgePolicy.calls": "rb.resilient",
    "Outbox.calls": "100",
    "Toolbox.call.name": '"search"',
    "named.name": '"ReadTimeout"',
    "Commands.timeouts": "(10,)",
    "Daemon.command": '"server"',
    "Sidecar.command": '("npx", "-y", "server")',
    "Sidecar.idempotent": '("search",)',
    "Sidecar.env": '{"LOG_LEVEL": "debug"}',
    "Sidecar.effects": '"effects.db"',
    "Sidecar.verify": '{"pay": "find_payment"}',
    "Effects.path": '"effects.db"',
    "Effects.scope": '"tenant 4"',
    "Effects.hold": "600",
    "Effects.results": "True",
    "Effects.key": '{"pay": lambda arguments: arguments["order"]}',
    "Effects.ignore": '{"pay": ["trace_id"]}',
    "Toolbox.effects": 'rb.stores.Effects("effects.db")',
    "capture.function": "search",
}
"""The same where the argument's name means something else."""


def example(owner: str, name: str) -> str:
    """Return a value for an argument, as one writes it."""
    return OWN_EXAMPLES.get(f"{owner}.{name}") or EXAMPLES.get(name, "...")


WHOLE: Final[Mapping[str, str]] = {
    "Backoff": EXAMPLES["backoff"],
    "Fallback": "rb.Fallback(cached_answer)",
    "Policy": "rb.Policy(rb.Retry())",
    "Commands": "rb.agent.Commands(start, poll)",
    "Daemon": 'rb.agent.Daemon("server", health="http://127.0.0.1:8000/health")',
    "sequence": 'rb.dialects.sequence(field="seq", ask=lambda record: {"since": record.position})',
}
"""The line for a call without any argument, where one made of its required arguments says too little."""
