"""The line to write instead of a value that a constructor, a method or a setting of ours refused.

Rule: the field's path decides. The user's own value is used where it shows what was meant ("8" is
8); where it does not, the line has an example.
"""

# the values are those of a wrong call: anything
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import builtins
import re
from collections.abc import Callable
from inspect import Parameter, iscoroutine, signature
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final, cast

from ..lazy_names import address, names_of
from ..lazy_names import found as public_value
from .accepted_lines import accepted_line
from .foreign_words import DURATIONS, EXAMPLES, WHOLE, example
from .mistakes import advice, code, required_of, schedule_of, spelled
from .redaction import redact
from .secret_values import has_mix
from .vocabulary import Category, Kind, is_known_code, near_code


def is_host(text: str) -> bool:
    """Return whether a text looks like a host, with or without a port, and like no secret."""
    found = re.fullmatch(r"([A-Za-z0-9.-]{1,100})(:\d{1,5})?|\[[0-9a-fA-F:]+\](:\d+)?", text)
    if found is None or not found[1]:
        return found is not None
    return "." in found[1] or bool(found[2]) or _is_word(found[1])


def _is_word(text: str) -> bool:
    return text.isalpha() and len(text) <= 20 and not has_mix(text)


def url_for(_: str, received: object) -> str:
    """Return a ws:// or wss:// URL with the host of a wrong one, or an example.

    A path of plain words is kept; another one may be a secret, as those of webhooks are.
    """
    if not isinstance(received, str) or not received.strip():
        return EXAMPLES["url"]
    text = received.strip()
    if text.startswith("/"):
        return EXAMPLES["url"]
    scheme, slashes, rest = text.partition("://")
    if not slashes:
        rest, scheme = (
            re.sub(r"^(wss?|https?):?/*", "", text),
            "wss" if text.startswith(("wss", "https")) else "",
        )
    rest = rest.lstrip("/")
    host = re.split("[/?#]", rest, maxsplit=1)[0]
    if not is_host(host):
        return EXAMPLES["url"]
    is_near = bool(re.match(r"(localhost|127\.|\[::1\]|0\.0\.0\.0)", host)) or host.endswith(
        ".local"
    )
    secure = scheme in {"wss", "https"} or (scheme not in {"http", "ws"} and not is_near)
    path = rest[len(host) :].partition("?")[0].partition("#")[0]
    is_plain = all(_is_word(part) for part in path.split("/") if part)
    more = path if is_plain else "/..."
    shown = f"{'wss' if secure else 'ws'}://{host}{more}" + ("?..." if "?" in rest else "")
    return f'"{redact(shown)}"' if text != shown else EXAMPLES["url"]


_INDEX: Final = re.compile(r"\[.*", re.DOTALL)
_NUMBER: Final = re.compile(r"\s*\+?(\d{1,9}(?:\.\d+)?)\s*")
_UNIT: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", re.IGNORECASE)
_UNITS: Final = {
    "second": "s",
    "sec": "s",
    "minute": "min",
    "hour": "h",
    "hr": "h",
    "day": "d",
    "milli": "ms",
    "msec": "ms",
}
_LINES: Final = {
    "Policy.idempotent": "@policy(idempotent={})",
    "Policy.function": "{}",
    "Policy.call.function": "policy(idempotent=True).call({})",
    "Breaker.consecutive.failures": "rb.Breaker.consecutive({})",
    "Backoff.seconds": "rb.Backoff.constant({})",
    "Backoff.base": "rb.Backoff.exponential({})",
    "Backoff.step": "rb.Backoff.linear({})",
    "Backoff.steps": "rb.Backoff.steps({})",
    "Backoff.cap": "rb.Backoff.exponential(1, cap={})",
    "Backoff.factor": "rb.Backoff.exponential(1, factor={})",
    "Backoff.jitter": "rb.Backoff.exponential(1, jitter={})",
    "Backoff.then": "rb.Backoff.steps(1, 2, 5, then={})",
    "Backoff.parse": "rb.Backoff.parse({})",
    "Backoff.delays.n": "backoff.delays({})",
    "Backoff.explain.n": "backoff.explain({})",
    "Backoff.sample.n": "backoff.sample({}, seed=1)",
    "Backoff.sample.seed": "backoff.sample(6, seed={})",
    "send.ttl": 'await bridge.send("tool_result", {{"tool_call_id": "t1", "content": "ok"}}, ttl={})',
    "request.timeout": 'await bridge.request("git_status_request", {{}}, timeout={})',
    "confirmed.timeout": "await receipt.confirmed(timeout={})",
    "wait_ready.timeout": "await bridge.wait_ready(timeout={})",
    "aclose.drain": "await bridge.aclose(drain={})",
    "BridgeClient.backfill": 'rb.BridgeClient("wss://host/ws", dialect=dialect, backfill={})',
    "BridgeClient.over.factory": "rb.BridgeClient.over({})",
    "named.package": 'rb.named({}, "ReadTimeout")',
    "named.name": 'rb.named("httpx", {})',
    "Toolbox.tool.idempotent": "@toolbox.tool(idempotent={})",
    "Toolbox.tool.function": "@toolbox.tool(idempotent=True)",
    "Toolbox.call.arguments": 'await toolbox.call("search", {})',
    "ContextGuard.count": "rb.agent.ContextGuard(100_000, count={})",
    "Daemon.health": 'rb.agent.Daemon("server", health={})',
    "load.env": 'rb.load("settings.toml", env={})',
    "Toolbox.call.timeout": 'await toolbox.call("search", {{"query": "x"}}, timeout={})',
    "Workflow": "@flow.phase(artifacts=('plan.md',))",
    "send": 'await bridge.send("tool_result", {{"tool_call_id": "t1", "content": "ok"}})',
    "stdio.command": "rb.links.stdio({})",
    "Sidecar": 'rb.mcp.Sidecar(command=("npx", "-y", "server"))',
    "BridgeClient": "async with rb.BridgeClient(url) as bridge: ...",
    "Debug": "rb.telemetry.Debug({})",
    "listen.listener": "with rb.listen({}): ...",
    "classify.error": "rb.classify({})",
}  # fmt: skip
_BESIDE: Final = {
    "Backoff.steps": "1, 2, 5",
    "Fallback": "cached_answer",
    "Policy": "rb.Retry()",
    "Sidecar": 'command=("npx", "-y", "server")',
    "Timeout.escalating": "2, 10",
}
"""What a line with another argument needs, where the signature does not say it."""
_LINK: Final = 'lambda: Client("https://host/mcp")'


@advice("")
def line_for_value(path: str, received: object) -> str:
    """Return the line to write instead of what was received at a path; empty if none is known.

    The path is that of an error, such as `Retry.on[1]` or `confirmed.timeout`.
    """
    key = _INDEX.sub("", path).replace("(", ".").replace("=)", "").replace(")", "")
    owner, _, field = key.rpartition(".")
    if not owner:
        line = _LINES.get(key, "")
        return "" if "{}" in line.replace("{{}}", "") else _filled(line, "")
    fix = _FIXES.get(key) or _FIXES.get(f"*.{field}")
    text = fix(owner, received) if fix is not None else _usual(owner, field, received)
    if not text or text.startswith(("@", "async ")):
        return text
    line = accepted_line(line_with(key, text), {code(received): received})
    return line or accepted_line(line_with(key, example(owner, field)), {})


def _filled(line: str, text: str) -> str:
    """Return a line with its value; doubled braces are single ones, as in `str.format`."""
    before, mark, after = line.replace("{{}}", "\0").partition("{}")
    whole = before + (text if mark else "") + after
    return whole.replace("\0", "{}").replace("{{", "{").replace("}}", "}")


def line_with(key: str, text: str) -> str:
    """Return the line that has a text as the value of a field, such as `Retry.attempts`."""
    owner, _, field = key.rpartition(".")
    if key in _LINES:
        return _filled(_LINES[key], text)
    if address(owner.partition(".")[0]) is None:
        return ""
    if owner == "wrap":
        first = "" if field == "client" else "AsyncOpenAI(), "
        return (
            f"rb.wrap({first}{text})"
            if field in {"client", "policy"}
            else f"rb.wrap({first}{field}={text})"
        )
    if owner == "reconnecting":
        first = "" if field == "factory" else f"{_LINK}, "
        return (
            f"rb.reconnecting({first}{text})"
            if field in {"factory", "policy"}
            else f"rb.reconnecting({first}{field}={text})"
        )
    function = _function_of(owner)
    if _is_first(function, field):
        return f"{spelled(owner)}({text})"
    beside = "" if field in {"command", "url"} else _BESIDE.get(owner, "")
    if not beside and callable(function):
        beside = required_of(owner, function, without=field)
    return f"{spelled(owner)}({', '.join(filter(None, [beside, f'{field}={text}']))})"


def _function_of(owner: str) -> Any:
    name, _, method = owner.partition(".")
    value = public_value(name)
    return getattr(value, method, None) if method else value


def _is_first(taken: Any, field: str) -> bool:
    """Return whether an argument is the first, and may be given by position."""
    if not callable(taken):
        return False
    try:
        parameters = [
            each
            for each in signature(taken).parameters.values()
            if each.name not in {"self", "cls"}
        ]
    except ValueError:  # a class written in C that does not say what it takes
        return False
    return (
        bool(parameters)
        and parameters[0].name == field
        and parameters[0].kind is not Parameter.KEYWORD_ONLY
    )


def _usual(owner: str, field: str, received: object) -> str:
    """Return what was received in the form that the field takes, or an example."""
    found = example(owner, field)
    if found == "...":
        return ""
    if field in DURATIONS and isinstance(received, str):
        return _seconds(received) or found
    if isinstance(received, str) and found.isdigit() and (number := _NUMBER.fullmatch(received)):
        return number[1]
    if (
        isinstance(received, float)
        and field not in DURATIONS
        and found.isdigit()
        and received >= 1
        and received.is_integer()
        and received < 1e9
    ):
        return str(int(received))
    if found in {"True", "False"}:
        return "False" if received in (0, "no", "false", "False", "off", "n", "") else found
    return found


def _instance(public_name: str, kind: type, found: str) -> str:
    if found.startswith(f"{public_name}("):
        return found
    return WHOLE.get(kind.__name__) or f"{public_name}({required_of(kind.__name__, kind)})"


def _seconds(text: str) -> str:
    """Return the duration that a text means, as one writes it; empty if it is not clear."""
    if number := _NUMBER.fullmatch(text):
        return number[1]
    found = _UNIT.fullmatch(text) or _UNIT.fullmatch(f"1 {text}")
    if found is None:
        return ""
    word = found[2].lower()
    unit = next(
        (short for long, short in _UNITS.items() if word.startswith(long)),
        word.removesuffix("s") or "s",
    )
    return f'"{found[1]}{unit}"' if unit in {"s", "min", "m", "h", "d", "ms", "us"} else ""


# ---- one function a field -------------------------------------------------------------------------------------


def _on(owner: str, received: object) -> str:
    if isinstance(received, list | tuple | set | frozenset):
        items = [_what(item) or code(item) for item in cast("Any", received)]
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
    return _what(received) or example(owner, "on")


def _what(what: object) -> str:
    """Return the failure that is meant by what is none, as one writes it."""
    if isinstance(what, BaseException):
        return type(what).__name__
    if what is True:
        return "Exception"
    if isinstance(what, dict):
        return f"({', '.join(map(code, cast('Any', what)))},)"
    return _named(what.strip()) if isinstance(what, str) else ""


def _named(text: str) -> str:
    last = text.rpartition(".")[2]
    found: object = getattr(builtins, text, None) or (
        getattr(builtins, last, None) if text != last and text.startswith("builtins") else None
    )
    if isinstance(found, type) and issubclass(found, BaseException):
        return found.__name__
    if text.lower() in set(Kind):
        return f"rb.Kind.{text.upper()}"
    if text.upper() in set(Category):
        return f"rb.Category.{text.upper()}"
    if text.isdigit():
        return text
    if is_known_code(text.upper()):
        return f'"{text.upper()}"'
    package, _, name = text.replace(":", ".").rpartition(".")
    if package.replace(".", "").isidentifier() and name.isidentifier() and name[:1].isupper():
        return f'rb.named("{package.partition(".")[0]}", "{name}")'
    near = near_code(text, ())
    return (
        f'"{near}"'
        if near and near.isupper()
        else "ConnectionError"
        if text[:1].isupper() and not text.isupper()
        else ""
    )


def _rules(_: str, received: object) -> str:
    if isinstance(received, dict) and received:
        entries = (
            f"{_what(key) or code(key)}: {code(value) if type(value).__name__ == 'Rule' else f'rb.Rule(attempts={_count(value)})'}"
            for key, value in cast("Any", received).items()
        )
        return "{" + ", ".join(entries) + "}"
    if isinstance(received, str) and _what(received):
        return f"{{{_what(received)}: rb.Rule(attempts=6)}}"
    if type(received).__name__ == "Rule":
        return f"{{429: {code(received)}}}"
    if isinstance(received, list | tuple) and all(
        isinstance(pair, tuple) and len(cast("Any", pair)) == 2 for pair in cast("Any", received)
    ):
        return (
            "{"
            + ", ".join(f"{code(key)}: {code(value)}" for key, value in cast("Any", received))
            + "}"
        )
    return EXAMPLES["rules"]


def _count(value: object) -> str:
    return (
        str(value) if isinstance(value, int) and not isinstance(value, bool) and value > 0 else "6"
    )


def _attempts(_: str, received: object) -> str:
    if isinstance(received, str) and (number := _NUMBER.fullmatch(received)):
        return str(max(1, int(float(number[1]))))
    if isinstance(received, float) and 1 <= received < 1e6:
        return str(int(received))
    if received == 0 or received is None or received is False:
        return "1" if received is not None else EXAMPLES["attempts"]
    return EXAMPLES["attempts"]


def _schedule(_: str, received: object) -> str:
    return schedule_of(received)


def _share(owner: str, received: object) -> str:
    number = received
    if isinstance(received, str) and (
        found := re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%?\s*", received)
    ):
        number = float(found[1]) / (100 if "%" in received or float(found[1]) > 1 else 1)
    elif isinstance(received, int | float) and 1 < received <= 100:
        number = received / 100
    is_share = isinstance(number, int | float) and not isinstance(number, bool) and 0 < number <= 1
    return f"{number:g}" if is_share else example(owner, "rate")


def _budget(_: str, received: object) -> str:
    return (
        f"rb.RetryBudget(ratio={_share('RetryBudget', received)})"
        if isinstance(received, int | float | str) and received not in {True, False}
        else ("None" if received is False else "rb.RetryBudget()")
    )


def _jitter(_: str, received: object) -> str:
    return '"none"' if received in (False, None, 0) else '"full"'


def _window(owner: str, received: object) -> str:
    if isinstance(received, float):
        return f'"{received:g}s"'
    return _usual(owner, "window", received)


def _policy(owner: str, received: object) -> str:
    """Return a policy from its name, a layer, several layers, a class or a number."""
    is_link = owner in {"BridgeClient", "reconnecting"}
    if isinstance(received, str):
        presets = names_of("presets")
        if received.lower() in presets:
            return (
                f"rb.presets.{received.lower()}"
                if is_link
                else f"rb.presets.{received.lower()}.calls"
            )
        return "rb.presets.default" if is_link else "rb.resilient"
    if isinstance(received, list | tuple) and received:
        return f"rb.Policy({', '.join(map(_layer, cast('Any', received)))})"
    layer = _layer(received)
    if layer and layer != "rb.Retry()":
        return f"rb.Policy({layer})" if not layer.startswith("rb.Policy(") else layer
    if type(received).__name__ == "Retry" or (
        isinstance(received, type) and received.__name__ == "Retry"
    ):
        return "rb.Policy(rb.Retry())"
    if type(received).__name__ == "Reconnect":
        return f"rb.presets.default.evolve(reconnect={code(received)})"
    return example(owner, "policy")


def _layer(received: object) -> str:
    """Return a layer of a policy from what is none; empty if it does not say which."""
    name = type(received).__name__
    if hasattr(type(received), "usual_position") and address(name):
        return code(received)
    if isinstance(received, type) and (public_name := address(received.__name__)):
        return _instance(public_name, received, "")
    if isinstance(received, list | tuple) and received:
        return ", ".join(map(_layer, cast("Any", received)))
    if isinstance(received, int) and not isinstance(received, bool) and received > 0:
        return f"rb.Retry(attempts={received})"
    by_class = {
        "Backoff": "rb.Retry(backoff={})",
        "RetryBudget": "rb.Retry(budget={})",
        "Rule": "rb.Retry(rules={{429: {}}})",
        "BridgePolicy": "rb.presets.default.calls",
    }
    if name in by_class:
        return by_class[name].replace("{{", "{").replace("}}", "}").replace("{}", code(received))
    words = {
        "retry": "rb.Retry()",
        "breaker": "rb.Breaker()",
        "timeout": "rb.Timeout(10)",
        "circuitbreaker": "rb.Breaker()",
    }
    if isinstance(received, str):
        return words.get(received.lower().replace("_", ""), "rb.Retry()")
    return "rb.Retry()"


def _layers(_: str, received: object) -> str:
    if isinstance(received, FunctionType | MethodType):
        return "@rb.Policy(rb.Retry())(idempotent=True)"
    return _layer(received)


def _dialect(owner: str, received: object) -> str:
    name = received if isinstance(received, str) else getattr(received, "__name__", "")
    if name == "sequence":
        return 'rb.dialects.sequence(field="seq", ask=lambda record: {"since": record.position})'
    return (
        f"rb.dialects.{name}"
        if name in names_of("dialects") and isinstance(received, str)
        else example(owner, "dialect")
    )


def _store(owner: str, received: object) -> str:
    if isinstance(received, type):
        public_name = address(received.__name__) or ""
        if public_name.startswith("rb.stores."):
            return _instance(public_name, received, "")
        if not public_name:
            return f'{received.__name__}("bridge.db")'
    return example(owner, "store")


def _factory(_: str, received: object) -> str:
    if isinstance(received, str):
        return f"lambda: Client({code(received)})"
    if received is None or isinstance(received, int | float | list | dict | ModuleType):
        return _LINK
    return f"lambda: {type(received).__name__}(...)"


def _function(_: str, received: object) -> str:
    if iscoroutine(received):
        name = received.__name__
        return f"await policy(idempotent=True).call({name})"
    return (
        "await policy(idempotent=True).call(search)"
        if not isinstance(received, type)
        else "@policy(idempotent=True)"
    )


def _dotted(_: str, received: object) -> str:
    package = received.partition(".")[0] if isinstance(received, str) else ""
    return f'"{package}"' if package.isidentifier() else '"httpx"'


def _last(_: str, received: object) -> str:
    name = received.rpartition(".")[2] if isinstance(received, str) else ""
    return f'"{name}"' if name.isidentifier() else '"ReadTimeout"'


def _schedule_text(_: str, received: object) -> str:
    return (
        f'"{schedule_of(received).removeprefix("rb.Backoff.")}"'
        if isinstance(received, str) and '"' not in schedule_of(received)
        else EXAMPLES["text"]
    )


def _steps(_: str, received: object) -> str:
    if isinstance(received, list | tuple) and received:
        return ", ".join(map(code, cast("Any", received)))
    return _seconds(received) if isinstance(received, str) and _seconds(received) else "1, 2, 5"


def _wrapped(_: str, received: object) -> str:
    if isinstance(received, type):
        return f"{received.__name__}()"
    if isinstance(received, FunctionType | MethodType):
        return "@policy(idempotent=True)"
    return "AsyncOpenAI()"


def _ladder(_: str, received: object) -> str:
    if isinstance(received, list | tuple) and received:
        return ", ".join(map(code, cast("Any", received)))
    if isinstance(received, _VALUE):
        return f"lambda *args, **kwargs: {code(received)}"
    return "cached_answer"


def _calls(owner: str, received: object) -> str:
    if isinstance(received, str) and (
        number := re.match(r"\s*(\d+)\s*(?:/|per)\s*(\w+)", received)
    ):
        return f"{number[1]}, per={_seconds(number[2]) or _seconds('1' + number[2]) or '60'}"
    return _usual(owner, "calls", received)


def _whole_seconds(_: str, received: object) -> str:
    found = _UNIT.fullmatch(received) if isinstance(received, str) else None
    return found[1] if found and found[2] in {"s", "sec", "seconds"} else "60"


def _methods(owner: str, received: object) -> str:
    return f"({received!r},)" if isinstance(received, str) else example(owner, "methods")


def _protected(owner: str, received: object) -> str:
    if not isinstance(received, FunctionType | MethodType):
        return "search" if owner == "inject" else EXAMPLES["of"]
    text = code(received)
    text = text if text.isidentifier() else "search"
    return f"rb.Policy(rb.Retry(), rb.Breaker())(idempotent=True)({text})"


def _heartbeat(_: str, received: object) -> str:
    is_number = isinstance(received, int | float | str) and received not in {True, False}
    return (
        f"rb.bridge.Heartbeat(every={_usual('Heartbeat', 'every', received) if isinstance(received, str) else code(received)})"
        if is_number
        else "rb.bridge.Heartbeat()"
    )


def _reconnect(_: str, received: object) -> str:
    if type(received).__name__ == "Backoff":
        return f"rb.bridge.Reconnect(backoff={code(received)})"
    if type(received).__name__ == "Retry":
        return f"rb.bridge.Reconnect(attempts={getattr(received, 'attempts', 5)})"
    return (
        f"rb.bridge.Reconnect(attempts={_count(received)})"
        if _count(received) != "6"
        else "rb.bridge.Reconnect()"
    )


def _timeouts(_: str, received: object) -> str:
    is_number = (
        isinstance(received, int | float) and not isinstance(received, bool) and 0 < received <= 1e9
    )
    return f"{{'default': {code(received)}}}" if is_number else EXAMPLES["timeouts"]


_VALUE: Final = (str, int, float, bool, dict)
_FIXES: Final[dict[str, Callable[[str, object], str]]] = {
    "*.on": _on,
    "*.ignore": _on,
    "*.rules": _rules,
    "Retry.attempts": _attempts,
    "Rule.attempts": _attempts,
    "Reconnect.attempts": _attempts,
    "*.backoff": _schedule,
    "Breaker.rate": _share,
    "RetryBudget.ratio": _share,
    "Retry.budget": _budget,
    "Backoff.jitter": _jitter,
    "Breaker.window": _window,
    "*.policy": _policy,
    "BridgePolicy.calls": _policy,
    "Policy.layers": _layers,
    "*.dialect": _dialect,
    "BridgeClient.store": _store,
    "reconnecting.factory": _factory,
    "BridgeClient.over.factory": _factory,
    "Policy.function": _function,
    "BridgeClient.url": url_for,
    "named.package": _dotted,
    "named.name": _last,
    "Backoff.parse": _schedule_text,
    "Backoff.then": _schedule,
    "Backoff.steps": _steps,
    "Fallback.ladder": _ladder,
    "wrap.client": _wrapped,
    "Alerts.window": _whole_seconds,
    "wrap.methods": _methods,
    "inject.target": _protected,
    "circuit.of": _protected,
    "BridgePolicy.heartbeat": _heartbeat,
    "BridgePolicy.reconnect": _reconnect,
    "Toolbox.timeouts": _timeouts,
    "RateLimit.calls": _calls,
}
"""What to write for a field, from its owner and what was received: `Owner.field`, or `*.field` of any owner."""
