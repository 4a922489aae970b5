"""The connection of a store to Redis: one call at a time, bounded in time, every way to fail in one error without a secret.

`redis.asyncio` is imported here, when a store is opened. Rule: a call that is given up leaves no socket behind, and it carries an
instant of the server's own clock, after which the server does not do it any more.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from ...errors import MASK, ConfigError, Executed, Failure, StoreError, config_error
from ...errors.extras import needed


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_SCHEMES: Final = ("redis://", "rediss://", "unix://")
_MEMORY: Final = "used memory > 'maxmemory'"
_GOODBYE: Final = 1.0  # seconds for the connection to close


def check_url(url: object) -> None:
    """Raise ConfigError unless this is the address of a Redis. It is not shown: there may be a password in it."""
    good = isinstance(url, str) and url.startswith(_SCHEMES)
    if isinstance(url, str) and good:
        try:
            good = url.startswith("unix://") or urlsplit(url).port != 0
        except ValueError:
            good = False
    if not good:
        got = "<url>" if isinstance(url, str) else type(url).__name__
        raise config_error("RedisStore.url", "a redis://, rediss:// or unix:// URL", got)


def shown(url: str) -> str:
    """Scheme, host, port and path of a URL: no user, no password, no query."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return f"unix://{parts.path}"
    host = parts.hostname or "localhost"
    host = f"[{host}]" if ":" in host else host
    port = f":{parts.port}" if parts.port is not None else ""
    return f"{parts.scheme}://{host}{port}{parts.path}"


def _secrets(url: str) -> list[str]:
    parts = urlsplit(url)
    asked = [value for name, value in parse_qsl(parts.query) if name.startswith(("pass", "user"))]
    known = [part for part in (parts.username, parts.password) if part]
    return sorted({*known, *map(unquote, known), *asked} - {"", "default"}, key=len, reverse=True)


class RedisLink:
    """Calls scripts and commands on one Redis. `offset` turns an instant of our loop into one of the server's clock."""

    def __init__(self, url: str, timeout: float) -> None:
        self.name = shown(url)
        self._url = url
        self._timeout = timeout
        self._secrets = _secrets(url)
        self._client: Any = None
        self._scripts: dict[str, Any] = {}
        self._errors: Any = None
        self.offset = 0.0

    # ---- open and closed --------------------------------------------------------------------------------------

    def open(self) -> None:
        """Make the client; it connects with the first call. Raises ConfigError without the package, or for a wrong URL."""
        redis: Any = needed("redis.asyncio", "RedisStore")
        self._errors = import_module("redis.exceptions")
        never = import_module("redis.asyncio.retry").Retry(import_module("redis.backoff").NoBackoff(), 0)
        try:
            self._client = redis.Redis.from_url(
                self._url,
                protocol=2,
                decode_responses=False,
                socket_timeout=self._timeout,
                socket_connect_timeout=self._timeout,
                retry=never,  # we decide what is repeated, and when
            )
        except (ValueError, TypeError) as error:  # it may quote the password
            raise _bad_url(type(error).__name__) from None
        pool = self._client.connection_pool
        pool.connection_class = _abrupt(pool.connection_class)
        self._scripts = {}

    async def close(self) -> None:
        """Close the connections, politely for a second at most."""
        client, self._client = self._client, None
        if client is None:
            return
        with suppress(Exception):
            async with asyncio.timeout(_GOODBYE):
                await client.aclose()

    # ---- calls ------------------------------------------------------------------------------------------------

    async def script(
        self, text: str, keys: Sequence[str], args: Callable[[float], Sequence[Any]], *, deadline: float
    ) -> list[Any]:
        """Run a script; `args` are asked for with the server's clock at `deadline` (of our loop). Raises StoreError.

        A connection that turns out to be dead is replaced once: scripts may be repeated.
        """
        loop = asyncio.get_running_loop()
        known = self._scripts.get(text)
        if known is None:
            known = self._scripts[text] = self._client.register_script(text)

        async def run() -> list[Any]:
            return list(await known(keys=list(keys), args=list(args(deadline + self.offset))))

        answer = await self._bounded(run, deadline)
        # What the clock said when it ran was earlier than now: so late that a script which is given up has ended by then.
        self.offset = float(answer[1]) - loop.time()
        return [part.decode() if isinstance(part, bytes) else part for part in answer]

    async def read(self, *commands: tuple[str, ...], deadline: float) -> list[Any]:
        """Run commands that only read, together. An error that the server gave one of them stands in its place."""

        async def run() -> list[Any]:
            pipeline = self._client.pipeline(transaction=False)
            for command in commands:
                pipeline.execute_command(*command)
            return list(await pipeline.execute(raise_on_error=False))

        if not commands:
            return []
        answers: list[Any] = await self._bounded(run, deadline)
        for answer in answers:
            if isinstance(answer, Exception) and "WRONGTYPE" not in str(answer):
                raise self.failed(answer) from answer
        return answers

    async def release(self, text: str, key: str, token: str) -> None:
        """Run the script that lets go of a key."""

        async def run() -> Any:
            return await self._client.eval(text, 1, key, token)

        await self._bounded(run, asyncio.get_running_loop().time() + min(self._timeout, _GOODBYE))

    async def _bounded(self, run: Callable[[], Any], deadline: float) -> Any:
        try:
            async with asyncio.timeout_at(deadline):
                try:
                    return await run()
                except self._errors.ConnectionError as error:
                    if _is_refusal(error) or isinstance(error, self._errors.AuthenticationError):
                        raise
                return await run()
        except (self._errors.RedisError, OSError) as error:  # TimeoutError is an OSError
            raise self.failed(error) from error

    # ---- what is said -----------------------------------------------------------------------------------------

    def failed(self, error: Exception) -> StoreError:
        """What happened, without the password."""
        text = str(error)
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        if isinstance(error, (TimeoutError, self._errors.TimeoutError)):
            message = f"no answer within {self._timeout:g} s"
        else:
            message = text.partition(" script: ")[0].rstrip(".") or type(error).__name__
            message = f"out of memory: {message}" if _MEMORY in message else message
        is_refused = isinstance(error, self._errors.AuthenticationError)
        return StoreError(
            Failure.of(
                "SYS_STORE_UNAVAILABLE",
                f"redis at {self.name}: {message[:200]}",
                cause=error,
                retryable=False if is_refused else None,
                suggestions=("correct the user and the password in the url",) if is_refused else (),
            )
        )


def is_full(error: StoreError) -> bool:
    """Did Redis refuse for want of memory?"""
    return _MEMORY in error.failure.message


def superseded(what: str) -> StoreError:
    """Another process has the store now."""
    return StoreError(
        Failure.of("SESS_SUPERSEDED", f"{what} was taken over by another process", executed=Executed.NO)
    )


def _abrupt(connection: Any) -> Any:
    """A class of connections that end when they are closed: what a server that stopped has not read yet is not waited for."""

    async def disconnect(self: Any, *args: Any, **options: Any) -> None:
        writer = getattr(self, "_writer", None)
        try:
            await connection.disconnect(self, *args, **options)
        finally:
            if writer is not None:
                writer.transport.abort()

    return type("AbruptConnection", (connection,), {"disconnect": disconnect})


def _is_refusal(error: Exception) -> bool:
    """Was nothing connected, so that asking once more at once gives the same answer?"""
    return "connecting to" in str(error) or "LOADING" in str(error)


def _bad_url(why: str) -> ConfigError:
    return config_error(
        "RedisStore.url", "a redis://, rediss:// or unix:// URL with known options", f"<url> ({why})"
    )
