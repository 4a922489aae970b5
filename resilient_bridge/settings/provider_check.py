"""The optional check that all providers answer, between reading settings and starting a program.

Rule: all at once, within one time limit, and every provider that does not answer is a problem with
its path.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TypeAlias
from urllib.parse import urlsplit

from ..failure import Problem, class_name, redact, text_of


Check: TypeAlias = "Callable[[], Awaitable[object]]"
"""Asks a provider whether it can be used; raises, or returns False, if not."""
_PORTS = {"https": 443, "wss": 443, "http": 80, "ws": 80}


def address_of(url: str) -> tuple[str, int] | None:
    """Return the host and the port of a URL; None for one without a host."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    return (parts.hostname, port) if parts.hostname and port and parts.scheme in _PORTS else None


def has_credentials(url: str) -> bool:
    """Return whether a URL that `address_of` takes has a user name or a password."""
    parts = urlsplit(url)
    return (parts.username, parts.password) != (None, None)


def connects(url: str) -> Check:
    """Return a check that something listens at the host of a URL."""

    async def check() -> None:
        host, port = address_of(url) or ("", 0)
        _, writer = await asyncio.open_connection(host, port)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    return check


async def failed_checks(checks: Mapping[str, Check], seconds: float) -> list[Problem]:
    """Run all checks at once; return a problem for each that raised, returned False, or took longer
    than `seconds`.
    """
    if not checks:
        return []
    names = list(checks)
    tasks = [asyncio.ensure_future(_answer(checks[name])) for name in names]
    try:
        await asyncio.wait(tasks, timeout=seconds)
        problems: list[Problem] = []
        for name, task in zip(names, tasks, strict=True):
            got = task.result() if task.done() else f"nothing within {seconds:g} s"
            if got:
                problems.append(Problem(f"providers.{name}", f"wanted an answer, got {got}", None))
        return problems
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _answer(check: Check) -> str:
    """Return the problem in words; empty if there is none."""
    try:
        return "False" if await check() is False else ""
    except Exception as error:  # noqa: BLE001 -- whatever a check raises is its answer
        return redact(f"{class_name(error)}: {text_of(error)}", limit=200)
