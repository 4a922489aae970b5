"""How long the server asks to wait: `Retry-After` in seconds or as a date, and `retry-after-ms`.

Rule: the forms that servers send are read strictly: seconds, fractions of them (SDKs and servers
use both), HTTP dates, and those of `email.utils`. `float()` would accept "nan", "1e309" and other
scripts' digits. A date counts from the server's own `Date`, so that a wrong clock here does no
harm. The policy sets the cap.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast


_LONGEST_JOINED = 1_000  # characters
_LONGEST = 1e10  # seconds; beyond it the number means no more than "never"
_DIGITS = re.compile(r"[0-9]{1,10}(?:\.[0-9]{1,9})?")
_MANY_DIGITS = re.compile(r"[0-9]{11,4096}")
_MILLISECONDS = re.compile(r"[0-9]{1,13}(?:\.[0-9]{1,9})?")
_MOMENT = re.compile(
    r"[0-9]{10}(?:\.[0-9]{1,9})?"
)  # Unix time; fewer digits are seconds from now, or nothing
_MONTHS = {
    name: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), 1
    )
}
_CLOCK = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
_DATES = tuple(
    re.compile(form, re.IGNORECASE | re.ASCII)
    for form in (
        rf"[a-z]{{3}}, (?P<day>[0-9]{{2}}) (?P<month>[a-z]{{3}}) (?P<year>[0-9]{{4}}) {_CLOCK}(?: (?:GMT|UTC|Z|[+-]0000))?",
        rf"[a-z]{{6,9}}, (?P<day>[0-9]{{2}})-(?P<month>[a-z]{{3}})-(?P<year>[0-9]{{2}}) {_CLOCK} (?:GMT|UTC)",
        rf"[a-z]{{3}} (?P<month>[a-z]{{3}}) (?P<day>[ 0-9][0-9]) {_CLOCK} (?P<year>[0-9]{{4}})",
    )
)


def parse_retry_after(value: str, now_wall: float) -> float | None:
    """Return the seconds to wait for a `Retry-After` value, None if it is not valid.

    Seconds, with a fraction or without, or one of the three HTTP date forms, which are all UTC. A
    date in the past is 0. `now_wall` is Unix time. The result is finite and never negative; it is
    not capped to anything sensible.
    """
    seconds = _delta(value)
    if seconds is not None:
        return seconds
    at = parse_http_date(value, now_wall)
    return None if at is None else max(0.0, at - now_wall)


def parse_http_date(value: str, now_wall: float) -> float | None:
    """Return the Unix time of an HTTP date, None if it is none.

    `now_wall` decides the century of two-digit years.
    """
    text = value.strip(" \t")
    match = next((found for form in _DATES if (found := form.fullmatch(text))), None)
    if match is None or (month := _MONTHS.get(match["month"].lower())) is None:
        return None
    year = int(match["year"])
    if len(match["year"]) == 2:
        year = _century(year, now_wall)
    second = int(match["second"])
    try:
        at = datetime(
            year, month, int(match["day"]), int(match["hour"]), int(match["minute"]), tzinfo=UTC
        )
    except ValueError:
        return None
    return at.timestamp() + second if second <= 60 else None


def wait_from_headers(headers: object, now_wall: float | None) -> tuple[float | None, float | None]:
    """Return (seconds to wait, Unix time to wait for) of an answer's headers, each None if missing.

    `retry-after-ms` wins over `Retry-After`; of several the longest counts. The second value is
    only set when a date was given and neither the answer's `Date` nor `now_wall` tells what time it
    is.
    """
    for value in _values(headers, "retry-after-ms"):
        if _MILLISECONDS.fullmatch(value):
            return min(float(value) / 1000, _LONGEST), None
    asked = _values(headers, "retry-after")
    if not asked:
        return None, None
    now = _server_time(headers, now_wall)
    waits: list[float] = []
    dates: list[float] = []
    for value in _each(asked):
        wait = _delta(value) if now is None else parse_retry_after(value, now)
        if wait is not None:
            waits.append(wait)
        elif (at := parse_http_date(value, 0.0)) is not None:
            dates.append(at)
    return max(waits, default=None), None if waits else max(dates, default=None)


_DURATION = (
    r"(?:(?P<days>[0-9]{1,4}(?:\.[0-9]{1,3})?) ?d(?:ays?)?(?![a-z])(?:,? (?:and )?)?)?"
    r"(?:(?P<hours>[0-9]{1,4}(?:\.[0-9]{1,3})?) ?h(?:(?:ou)?rs?)?(?![a-z])(?:,? (?:and )?)?)?"
    r"(?:(?P<minutes>[0-9]{1,6}(?:\.[0-9]{1,3})?) ?m(?:in(?:ute)?s?)?(?!s)\b(?:,? (?:and )?)?|(?P<joined>[0-9]{1,6})m(?=[0-9]))?"
    r"(?:(?P<number>[0-9]{1,10}(?:\.[0-9]{1,9})?) ?(?P<unit>ms|milliseconds?|s|secs?|seconds?)\b)?"
)
_WHOLE = re.compile(_DURATION)
_TEXT = re.compile(
    r"(?:try|available|retry(?:ing)?|retries|wait(?:ing)?|resets?|refresh(?:es|ed)?|renew(?:s|ed)?|cool(?:ing)?[- ]?down|resume[sd]?|come back"
    r"|unblocked|retryafter|reset_after|retry_after|retrydelay)"
    r"(?:[ :=~\"'_-]{1,3}(?:your|this|the|request|again|available|in|after|for|about|approximately|another|at least|time|until|next|delay|seconds?"
    r"|is|be|will)){0,5}[ :=~\"'(]{0,4}" + _DURATION
)
_BARE = re.compile(
    r"\bretry[-_ ]?after(?:[-_ ]?(?:in[-_ ])?sec(?:ond)?s?)?[\"']?[ :=]{1,3}[\"']?([0-9]{1,6}(?:\.[0-9]{1,9})?)(?![0-9.:/]| ?[a-z-])"
)
_CHINESE = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?) ?(毫秒|秒|分|小时|天)钟?(?:之|以)?后")
_CHINESE_UNITS = {"毫秒": 0.001, "秒": 1, "分": 60, "小时": 3_600, "天": 86_400}


def seconds_in_field(value: object) -> float | None:
    """Return the seconds in a field: a number, or a text of one ("30", "53s"); None for anything else."""
    if isinstance(value, str):
        return float(value) if _DIGITS.fullmatch(value) else duration_of(value)
    return finite_seconds(value)


def finite_seconds(value: object) -> float | None:
    """Return a number of seconds that stands in a field as a number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        seconds = float(value)
    except OverflowError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def wait_in_text(text: str) -> float | None:
    """Return the seconds that a text in lower case asks to wait: "try again in 9m38.016s".

    None if it says none.
    """
    for match in _TEXT.finditer(text):
        seconds = _seconds_of(match)
        if seconds is not None:
            return seconds
    if (bare := _BARE.search(text)) is not None:
        return float(bare[1])
    if (chinese := _CHINESE.search(text)) is not None:
        return float(chinese[1]) * _CHINESE_UNITS[chinese[2]]
    return None


def duration_of(text: str) -> float | None:
    """Return the seconds of a duration with its units, as "53s" or "1h2m3.5s"; None for another text."""
    match = _WHOLE.fullmatch(text[:40].strip().lower())
    return None if match is None else _seconds_of(match)


def _seconds_of(match: re.Match[str]) -> float | None:
    parts = (match["days"], match["hours"], match["minutes"] or match["joined"], match["number"])
    if not any(parts):
        return None
    days, hours, minutes, number = (float(part or 0) for part in parts)
    seconds = number / (1000 if (match["unit"] or "").startswith("m") else 1)
    return min(days * 86_400 + hours * 3_600 + minutes * 60 + seconds, _LONGEST)


def reset_from_headers(
    headers: object, now_wall: float | None
) -> tuple[float | None, float | None]:
    """Return (seconds to wait, Unix time to wait for) of a limit that is used up, each None if not told.

    A limit is used up if `x-ratelimit-remaining` is 0; `x-ratelimit-reset` is a Unix time then.
    """
    if not any(value == "0" for value in _values(headers, "x-ratelimit-remaining")):
        return None, None
    for value in _values(headers, "x-ratelimit-reset"):
        if _MOMENT.fullmatch(value):
            now = _server_time(headers, now_wall)
            return (None, float(value)) if now is None else (max(0.0, float(value) - now), None)
    return None, None


_QUOTAS: Final = (
    ("x-ratelimit-remaining", "x-ratelimit-reset"),
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("ratelimit-remaining", "ratelimit-reset"),
)
_ITEM: Final = re.compile(r"[^,]{1,200}")
_FIELD: Final = re.compile(r"(?:^|[;,\s])(r|t|remaining|reset)=([0-9]{1,10})(?![0-9.])")


def quota_wait(headers: object, now_wall: float) -> float | None:
    """Return the seconds until a quota has something left, None if the headers do not say so.

    Of a quota that has nothing left: `x-ratelimit-remaining: 0` with its reset, in seconds, as a
    duration or a Unix time, also as providers write it for requests and tokens, and the `RateLimit`
    of the IETF's draft, in both its forms. Of several the longest counts.
    """
    waits: list[float] = []
    for remaining, reset in _QUOTAS:
        if any(value == "0" for value in _values(headers, remaining)):
            waits += [
                wait
                for value in _values(headers, reset)
                if (wait := _reset_in(value, headers, now_wall)) is not None
            ]
    for value in _values(headers, "ratelimit"):
        items = _ITEM.findall(value[:_LONGEST_JOINED]) if ";" in value else [value]
        for item in items:
            fields = dict(_FIELD.findall(item[:_LONGEST_JOINED]))
            used_up = fields.get("r", fields.get("remaining")) == "0"
            until = fields.get("t", fields.get("reset"))
            if used_up and until is not None:
                waits.append(float(until))
    return max(waits, default=None)


def _reset_in(value: str, headers: object, now_wall: float) -> float | None:
    if _MOMENT.fullmatch(value):
        return max(0.0, float(value) - (_server_time(headers, now_wall) or now_wall))
    return seconds_in_field(value)


def is_used_up(headers: object) -> bool:
    """Return whether the headers say that the limit is used up, or when to come back."""
    return any(value == "0" for value in _values(headers, "x-ratelimit-remaining")) or bool(
        _values(headers, "retry-after")
    )


def _server_time(headers: object, now_wall: float | None) -> float | None:
    for value in _values(headers, "date"):
        at = parse_http_date(value, now_wall or 0.0)
        if at is not None:
            return at
    return now_wall


def _delta(value: str) -> float | None:
    text = value.strip(" \t")
    if _DIGITS.fullmatch(text):
        return min(float(text), _LONGEST)
    return _LONGEST if _MANY_DIGITS.fullmatch(text) else None


def _century(year: int, now_wall: float) -> int:
    # RFC 9110 §5.6.7: a year that seems more than 50 years ahead is the most recent past one with these digits
    now = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=min(max(now_wall, 0.0), 1e11))).year
    full = now - now % 100 + year
    return full - 100 if full > now + 50 else full


def _each(values: Iterable[str]) -> Iterable[str]:
    """Yield each value, of two headers that a proxy joined (`120, 240`) both.

    A date has a comma of its own, and `1,5` is no list.
    """
    for value in values:
        parts = value.split(", ") if len(value) <= _LONGEST_JOINED else []
        is_list = bool(parts) and all(_delta(part) is not None for part in parts)
        yield from parts if is_list else [value]


def _values(headers: object, name: str) -> list[str]:
    """Return all values of a header; httpx, requests and websockets differ on duplicates."""
    for method in ("get_all", "get_list"):
        read = getattr(headers, method, None)
        if callable(read):
            # email's headers return None if there is none
            found = cast("Iterable[Any] | None", read(name))
            return [value.strip() for value in found or () if isinstance(value, str)]
    get = cast("Callable[[str], Any] | None", getattr(headers, "get", None))
    value = get(name) if callable(get) else None
    if value is None and type(headers) is dict:  # of an SDK: names in any case
        pairs = cast("dict[object, object]", headers).items()
        value = next(
            (value for key, value in pairs if isinstance(key, str) and key.lower() == name), None
        )
    return [value.strip()] if isinstance(value, str) else []
