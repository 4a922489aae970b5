"""`resilient-bridge doctor --bridge URL`: what a bridge guarantees, found out by testing it.

It connects, waits for an event, cuts the connection, and examines what it receives after that.
Rule: it sends only what the dialect itself sends; the one exception, the probe, needs two options.
It ends after about `--seconds`, whatever the server does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from ..client.arguments import check_url, secrets_of, shown
from ..failure import MASK, ConfigError, redact
from .dialects import Spelled, forms_of, laid_out, read_dialect
from .doctor_findings import conclude
from .doctor_look import Look, look
from .doctor_promise import notes_of, promise_of
from .doctor_rows import Row, data_of, page_width, rows_of, table_of
from .doctor_steps import Limits, examine
from .doctor_values import Findings
from .options import SECONDS, token_from
from .printing import USAGE, complain, for_a_shell, show
from .status_line import status_on_stderr


FOUND_OUT, REFUSED = 0, 1
_SHOWN: Final = 100  # characters of a frame
_SHORTEST: Final = 4  # a shorter secret is not masked: it would match parts of ordinary words
_UNSET: Final = "…"  # stands for an argument that frames cannot show


class Report(NamedTuple):
    """The result to print.

    It has the exit code, the rows, the sentences, the dialect as code, and the findings as data.
    """

    code: int
    rows: Sequence[Row]
    promise: str = ""
    notes: Sequence[str] = ()
    dialect: str | None = None
    findings: Findings | None = None
    first: Look | None = None
    why: str = ""


def run(arguments: argparse.Namespace) -> int:
    """Examine the bridge and print the findings; with `--mcp`, an MCP server instead.

    Return 0, 1 if the bridge could not be reached or refused us, or 2 for wrong usage.
    """
    if arguments.mcp is not None:
        from .doctor_mcp import run as examine_server

        return examine_server(arguments)
    probe = arguments.probe_tool or arguments.probe_arguments
    if arguments.command is not None or arguments.header or probe:
        return complain(
            "doctor", "a command, --header, --probe-tool and --probe-arguments need --mcp"
        )
    if (arguments.probe_type is not None) != arguments.probe_runs_twice:
        wanted = "--probe-type TYPE and --probe-runs-twice, or neither, expected: the message may have its effect twice"
        return complain("doctor", wanted)
    try:
        check_url(arguments.bridge)
        token = token_from(arguments.token_env)
        dialect = None if arguments.dialect is None else read_dialect(arguments.dialect)
    except ConfigError as error:
        return complain("doctor", for_a_shell(error))
    except ValueError as error:
        return complain("doctor", f"--dialect: {error}")
    except LookupError as error:
        return complain("doctor", str(error.args[0]))
    mask = _masking(arguments.bridge, token)
    try:
        report = _masked(asyncio.run(_watched(arguments, token, dialect)), mask)
    except ConfigError as error:
        return complain("doctor", for_a_shell(error))
    text = _json(arguments.bridge, report) if arguments.json else _text(arguments.bridge, report)
    failed = show("doctor", mask(text))
    if report.why:
        complain("doctor", report.why)
    return failed or report.code


async def _watched(
    arguments: argparse.Namespace, token: str | None, dialect: Spelled | None
) -> Report:
    with status_on_stderr(lambda seconds: f"looking at the bridge, {seconds:.0f} s"):
        return await _report(arguments, token, dialect)


async def _report(
    arguments: argparse.Namespace, token: str | None, dialect: Spelled | None
) -> Report:
    limits = Limits.of(arguments.seconds or SECONDS, asyncio.get_running_loop().time())
    first: Look | None = None
    if dialect is None:
        first = await look(
            arguments.bridge, connecting=limits.connecting, listening=limits.listening
        )
        mask = _masking(arguments.bridge, token)
        first = first._replace(
            frames=tuple(redact(mask(frame), limit=_SHOWN) for frame in first.frames)
        )
        if first.failure is not None and not first.frames:
            sent = (
                "" if token is None else "; no token was sent, as no --dialect said where it goes"
            )
            return Report(REFUSED, _looked(first), first=first, why=f"{first.failure}{sent}")
        found = next(iter(first.fits), "rb.dialects.recursor")
        if _UNSET in found:
            return Report(USAGE, _looked(first), dialect=found, first=first, why=_missing(found))
        dialect = read_dialect(found.removeprefix("rb.dialects."))
    if arguments.probe_type is not None and not forms_of(dialect.dialect).types:
        return Report(
            USAGE,
            (),
            first=first,
            why=f"--probe-type: a dialect with types expected, got {dialect.code}",
        )
    seen = await examine(
        arguments.bridge,
        dialect.dialect,
        limits,
        token=token,
        session_id=arguments.session,
        probe_type=arguments.probe_type,
    )
    findings = conclude(
        seen.connections, dialect.dialect, has_failed=seen.failure is not None, began=seen.began
    )
    fits = first.fits if first is not None else seen.fits
    return Report(
        FOUND_OUT if findings.is_found_out else REFUSED,
        [*([] if first is None else _looked(first)), *rows_of(findings)],
        promise=promise_of(findings, dialect.dialect) if findings.is_found_out else "",
        notes=[*notes_of(findings, dialect.dialect, fits), *seen.notes],
        dialect=dialect.code,
        findings=findings,
        first=first,
        why="" if findings.is_found_out else seen.why,
    )


def _missing(found: str) -> str:
    """Return the error for a dialect that fits, but has arguments that the frames do not show."""
    call = found.removeprefix("rb.dialects.")
    names = re.findall(rf"(\w+)={_UNSET}", call)
    missing = f"{' and '.join(names)}=" if names else "its arguments"
    return f'--dialect "{call}" expected: the frames do not show {missing}'


def _looked(first: Look) -> list[Row]:
    if first.failure is not None and not first.frames:
        has = (
            "no"
            if first.connected is None
            else f"after {first.connected:.3f} s, and ended before a frame came"
        )
        return [Row("connected", has)]
    if not first.frames:
        return [Row("first frames", "none: it waits for us to begin, so the default dialect does")]
    rows = [Row("" if index else "first frames", frame) for index, frame in enumerate(first.frames)]
    return [*rows, Row("fits", ", ".join(first.fits))]


# ---- what is printed ------------------------------------------------------------------------------------------------


def _text(url: str, report: Report) -> str:
    width = page_width()
    rows = report.rows if report.dialect is None else [Row("dialect", report.dialect), *report.rows]
    parts = [shown(url), table_of(rows, width)]
    sentences = [report.promise, *report.notes]
    parts += [
        table_of([Row("promise" if not index else "", text)], width)
        for index, text in enumerate(sentences)
        if text
    ]
    if report.promise and report.dialect is not None:
        parts.append(laid_out(report.dialect, width))
    return "\n\n".join(part for part in parts if part)


def _json(url: str, report: Report) -> str:
    fields: dict[str, Any] = {
        "bridge": shown(url),
        "found_out": report.code == FOUND_OUT,
        "dialect": report.dialect,
        "promise": report.promise or None,
        "notes": list(report.notes),
        "why": report.why or None,
        "rows": [{"what": row.what, "found": row.found} for row in report.rows],
        "findings": None if report.findings is None else data_of(report.findings),
    }
    if report.first is not None:
        fields["first_frames"] = list(report.first.frames)
        fields["fits"] = list(report.first.fits)
    return json.dumps(fields)


def _masked(report: Report, mask: Callable[[str], str]) -> Report:
    """Return the report with secrets masked, before wrapping could split one."""
    return report._replace(
        rows=[Row(row.what, mask(row.found)) for row in report.rows],
        notes=[mask(note) for note in report.notes],
        why=mask(report.why),
    )


def _masking(url: str, token: str | None) -> Callable[[str], str]:
    """Return a function that masks the secrets in a text: a server may have echoed them."""
    secrets = {
        secret
        for secret in (token, *secrets_of(url))
        if secret is not None and len(secret) >= _SHORTEST
    }

    def mask(text: str) -> str:
        for secret in sorted(secrets, key=len, reverse=True):
            for written in {secret, json.dumps(secret)[1:-1]}:
                text = text.replace(written, MASK)
        return text

    return mask
