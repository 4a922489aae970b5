"""The connection of a store to Redis: calls have a timeout, and errors hold no secret.

`redis.asyncio` is imported when a store is opened. Rule: a call that is given up leaves no socket
open. A write carries a deadline by the server's own clock, after which the server does not execute
it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from ...failure import Failure, StoreError, config_error
from ...failure.extras import needed
from .url import public_url, without_secrets


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence


_MEMORY: Final = "used memory > 'maxmemory'"
_CLOSE_TIMEOUT: Final = 1.0  # seconds


class RedisLink:
    """Runs scripts and commands on one Redis."""

    def __init__(self, url: str, timeout: float) -> None:
        self.name = public_url(url)
        self._url = url
        self._timeout = timeout
        self._client: Any = None
        self._errors: Any = None
        self._offset = 0.0  # added to a time of our loop it is the server's time

    def open(self) -> None:
        """Make the client, which connects with the first call.

        Raises ConfigError without the package redis, and for an unknown option in the url.
        """
        library: Any = needed("redis.asyncio", "RedisStore")
        errors: Any = import_module("redis.exceptions")
        retry, backoff = import_module("redis.asyncio.retry"), import_module("redis.backoff")
        dead = errors.ConnectionError
        try:
            client = library.Redis.from_url(
                self._url,
                protocol=2,
                decode_responses=False,
                socket_timeout=self._timeout,
                socket_connect_timeout=self._timeout,
                # Scripts may be repeated, so a dead connection is replaced once. The writer does
                # all other retries.
                retry=retry.Retry(backoff.NoBackoff(), 1, supported_errors=(dead,)),
                retry_on_error=[dead],
            )
        except (ValueError, TypeError) as error:  # its text may quote the password
            wanted = (
                "a redis://, rediss:// or unix:// URL with options that the package redis knows"
            )
            raise config_error(
                "RedisStore.url", wanted, f"<url> ({type(error).__name__})"
            ) from None
        client.connection_pool.connection_class = _abrupt(client.connection_pool.connection_class)
        self._client, self._errors = client, errors

    async def close(self) -> None:
        """Close the connections, within a second."""
        client, self._client = self._client, None
        if client is not None:
            with suppress(Exception):
                async with asyncio.timeout(_CLOSE_TIMEOUT):
                    await client.aclose()

    # ---- calls ------------------------------------------------------------------------------------------------

    async def script(
        self,
        text: str,
        keys: Sequence[str],
        args: Callable[[float], Sequence[Any]],
        *,
        deadline: float,
    ) -> list[Any]:
        """Run a script of `scripts.py`. Raises StoreError.

        `args` is called with the server's time at `deadline`, which is a time of our loop.
        """
        run = self._client.register_script(text)(
            keys=list(keys), args=list(args(deadline + self._offset))
        )
        answer = await self._bounded(run, deadline)
        # The script read the server's clock a moment ago: a deadline is rather too early than late.
        self._offset = float(answer[1]) - asyncio.get_running_loop().time()
        return [part.decode() if isinstance(part, bytes) else part for part in answer]

    async def read(self, *commands: tuple[str, ...], deadline: float) -> list[Any]:
        """Run commands that only read, in one round trip. Raises StoreError.

        The answer for a key that holds a value of another kind is the server's error.
        """
        if not commands:
            return []
        pipeline = self._client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        answers: list[Any] = await self._bounded(pipeline.execute(raise_on_error=False), deadline)
        for answer in answers:
            if isinstance(answer, Exception) and "WRONGTYPE" not in str(answer):
                raise self.failed(answer) from answer
        return answers

    async def _bounded(self, run: Awaitable[Any], deadline: float) -> Any:
        try:
            async with asyncio.timeout_at(deadline):
                return await run
        except (self._errors.RedisError, OSError) as error:  # TimeoutError is an OSError
            raise self.failed(error) from error

    # ---- errors -----------------------------------------------------------------------------------------------

    def failed(self, error: Exception) -> StoreError:
        if isinstance(error, (TimeoutError, self._errors.TimeoutError)):
            message = f"no answer within {self._timeout:g} s"
        else:
            text = without_secrets(self._url, str(error))
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
    return _MEMORY in error.failure.message


def _abrupt(connection: Any) -> Any:
    """Return a connection class whose `disconnect` does not wait for a server that has stopped."""

    async def disconnect(self: Any, *args: Any, **options: Any) -> None:
        writer = getattr(self, "_writer", None)
        try:
            await connection.disconnect(self, *args, **options)
        finally:
            if writer is not None:
                writer.transport.abort()

    return type("AbruptConnection", (connection,), {"disconnect": disconnect})
