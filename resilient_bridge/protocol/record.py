"""What a client knows of its session when it connects, and how its dialect asks with that for what was missed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import config_error
from .bookmark import Bookmark


if TYPE_CHECKING:
    from .facts import Record, Resume
    from .policies.dialect import Dialect
    from .watermark import Watermark


def record_of(watermark: Watermark, dialect: Dialect) -> Record:
    """What a dialect asks with, of a session at this position."""
    policy, bookmark = dialect.positions, watermark.bookmark
    return (bookmark or Bookmark()).record(
        watermark.session_id, joined=watermark.joined, overlap=0 if policy is None else policy.overlap
    )


def asks_in_url(asked: Resume | None) -> bool:
    """Does the request that makes the connection ask for what was missed?"""
    return asked is not None and bool(asked.query or asked.headers or asked.url)


def resume_of(record: Record, dialect: Dialect) -> Resume | None:
    """How this dialect asks for what was missed. Raises ConfigError for a function of it that cannot say it."""
    if dialect.resume is None:
        return None
    try:
        return dialect.resume(record)
    except Exception as error:
        raise config_error("Dialect.resume", "a function that returns a Resume", error) from error
