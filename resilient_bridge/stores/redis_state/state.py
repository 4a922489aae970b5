"""Circuits and retry budgets that several processes share through one Redis: `Policy(..., state=RedisState(url))`.

Rule: Redis may help a call, and never harms it. No call waits for it longer than `timeout`, none fails because of it, and while it is
away every process goes on alone, by what it knew last.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit
from weakref import finalize

import attrs

from ...errors import config_error
from ...errors.extras import needed
from ...errors.secret_shapes import MASK
from ...values.fields import Value, as_seconds, refuse, short_seconds, shown
from .budget import RedisBudget
from .circuit import RedisCircuit
from .exchange import Exchange


if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from ...calls.shared.ports import BudgetRules, CircuitRules, CircuitView
    from ...values.fields import Seconds


def _check_url(_: object, __: attrs.Attribute[Any], url: object) -> None:
    wanted = "redis://host:6379/0, rediss:// or unix://"
    if not isinstance(url, str):
        refuse("RedisState.url", wanted, type(url).__name__)
    scheme = url.partition("://")[0]
    if scheme not in ("redis", "rediss", "unix") or "://" not in url or _public(url) is None:
        refuse(
            "RedisState.url", wanted, f"{scheme[:6]}..." if "://" in url else "no url"
        )  # a url may hold a password


def _check_prefix(_: object, __: attrs.Attribute[Any], prefix: object) -> None:
    if not isinstance(prefix, str) or not prefix or "{" in prefix or "}" in prefix:
        refuse("RedisState.prefix", "a name that is not empty, without braces", prefix)


@attrs.frozen(init=False, repr=False, eq=False)
class RedisState(Value):
    """Circuits and retry budgets shared by all processes with the same `url`, `prefix` and keys.

    A call waits for Redis at most `timeout` seconds, and hardly ever: a closed circuit costs no round trip. While Redis is away,
    slower than that or in trouble, each process goes on alone (`StoreFailed`); it is tried again after `retry_after` seconds, then
    ever longer, up to 30 s, and the shared state is taken up as it is then (`StoreRecovered`). One thread does the talking, from the first
    call until `close()`; this is a context manager. A value: equal by its settings, pickled as these. ConfigError names a bad setting,
    or the package that is missing.
    """

    url: str = attrs.field(validator=_check_url)
    prefix: str = attrs.field(validator=_check_prefix)
    timeout: float = attrs.field(converter=as_seconds, validator=short_seconds)
    retry_after: float = attrs.field(converter=as_seconds, validator=short_seconds)
    _exchange: Exchange = attrs.field(eq=False, init=False)

    if TYPE_CHECKING:

        def __attrs_init__(self, url: str, prefix: str, timeout: Seconds, retry_after: Seconds) -> None: ...

    def __init__(
        self,
        url: str,
        *,
        prefix: str = "resilient_bridge",
        timeout: Seconds = 0.1,
        retry_after: Seconds = 1.0,
    ) -> None:
        """Keep the settings; nothing is connected before the first call."""
        self.__attrs_init__(url, prefix, timeout, retry_after)
        own, seconds = self.url, self.timeout
        exchange = Exchange(
            str(_public(own)),
            prefix,
            timeout=seconds,
            retry_after=self.retry_after,
            connect=lambda: _client(own, seconds),
            hide=partial(_hidden, own),
        )
        object.__setattr__(self, "_exchange", exchange)
        finalize(self, exchange.stop)  # also when the program ends: what is waiting is told

    def circuit(self, key: str, rules: CircuitRules, learn: Callable[[CircuitView], None], /) -> RedisCircuit:
        """Return the line to the circuit of this name. ConfigError without the package redis."""
        self._check()
        line = RedisCircuit(self._exchange, key, rules, learn)
        self._exchange.add(line)
        return line

    def budget(self, key: str, rules: BudgetRules, /) -> RedisBudget:
        """Return the line to the retry budget of this name. ConfigError without the package redis."""
        self._check()
        line = RedisBudget(self._exchange, key, rules)
        self._exchange.add(line)
        return line

    def _check(self) -> None:
        """Import and try the client now, where a policy is put around a function: the first call has no time for that."""
        needed("redis", "Policy.state")
        try:
            _client(self.url, self.timeout)
        except (TypeError, ValueError) as error:
            got = _hidden(self.url, str(error))
            raise config_error("RedisState.url", "options that the package redis knows", got) from None

    def close(self) -> None:
        """Tell what is waiting to be told, and end the thread and its connection; from now on every process is alone."""
        self._exchange.stop()

    def __enter__(self) -> Self:
        """The state, closed when the block is left."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        # The settings, password included: it is what the other process needs. Thread and socket stay here.
        return _rebuild, (self.url, self.prefix, self.timeout, self.retry_after)

    def __repr__(self) -> str:
        """Return the constructor's call, without what is secret in the url."""
        lines = [repr(_public(self.url))]
        if self.prefix != "resilient_bridge":
            lines.append(f"prefix={self.prefix!r}")
        if self.timeout != 0.1:
            lines.append(f"timeout={shown(self.timeout)}")
        if self.retry_after != 1:
            lines.append(f"retry_after={shown(self.retry_after)}")
        return f"RedisState({', '.join(lines)})"


def _rebuild(url: str, prefix: str, timeout: float, retry_after: float) -> RedisState:
    return RedisState(url, prefix=prefix, timeout=timeout, retry_after=retry_after)


def _public(url: str) -> str | None:
    """Return what may be shown of a url: no user, no password, no query; None if it is none."""
    with suppress(ValueError):
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port is not None else ""
        host = parts.hostname or ""
        host = f"[{host}]" if ":" in host else host
        return f"{parts.scheme}://{host}{port}{parts.path}"
    return None


def _hidden(url: str, text: str) -> str:
    """Return a text without the secrets of a url."""
    parts = urlsplit(url)
    secrets = [parts.password, *(value for name, value in parse_qsl(parts.query) if "password" in name)]
    for secret in filter(None, secrets):
        text = text.replace(secret, MASK).replace(unquote(secret), MASK)
    return text


def _client(url: str, timeout: float) -> Any:
    """Return a client with one connection that never tries twice: whoever waits has no time for a second try."""
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    library: Any = redis
    return library.Redis.from_url(
        url,
        socket_timeout=timeout,
        socket_connect_timeout=timeout,
        retry=Retry(NoBackoff(), 0),
        protocol=2,
        max_connections=1,
    )
