"""What other libraries do beside this one: one table of at most twelve rows, each measured in one run.

    python bench/comparison.py [--rows NAME,...] [--quick] [--json | --page]

It prints the table. `--json` prints the numbers, `--page` writes docs/reference/comparison.md, `--quick` measures little, to see that it runs.
With both `--rows` and `--page` the page's other rows stay as they are. The microseconds want a quiet machine.
The best of a row is bold, whoever it is. Less than five minutes; mcp-proxy needs mcp 1.x, so it is installed in an environment of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import _comparison_links as links
import _comparison_mcp as mcp
import _comparison_page as earlier
import _mcp_relays
import hedging
import nopanic
from _measure import interleave, per_call
from _peers import ASYNC_CIRCUITS, ASYNC_RETRIES, ASYNC_STACKS, our_breaker, our_retry, ours_full
from call_cost import flaky, target

import resilient_bridge as rb


OURS = "resilient_bridge"
COLUMNS = {  # library -> what the column is called
    OURS: "resilient-bridge",
    "tenacity": "tenacity",
    "stamina": "stamina",
    "nopanic": "nopanic",
    "hyx": "hyx",
    "httpx-retries": "httpx-retries",
    "websockets": "websockets' loop",
    "mcp-proxy": "mcp-proxy",
}
PAGE = Path(__file__).parents[1] / "docs" / "reference" / "comparison.md"
ASKED = 7  # seconds: the Retry-After of the row about it
Found = dict[str, Any]  # library -> what was measured


class Part(NamedTuple):
    """A number in the table, and what it is ranked by, the smaller the better; None: no better and no worse."""

    text: str
    rank: float | None = None


Cell = tuple[Part, ...]
NOTHING = (Part("—"),)


class Size(NamedTuple):
    """How much is measured."""

    trials: int  # waits of which the median is taken
    runs: int  # of the shared quota
    rounds: int  # of the two costs
    orders: int
    cuts: int
    clients: int  # of a server that refuses the handshake
    calls: int  # of a tool
    seeds: int  # of which the median hedge is taken
    callers: int  # of one key
    outage: float
    only_ours: bool


FULL = Size(200, 9, 51, 50, 50, 24, 60, 5, 100, 4.0, only_ours=False)
QUICK = Size(3, 1, 1, 2, 2, 2, 10, 1, 10, 0.5, only_ours=True)


# ---- measuring ------------------------------------------------------------------------------------------------------
def _in_virtual_time(what: str, number: int) -> dict[str, Found]:
    """Return what another process found, whose clock is not the real one."""
    command = [sys.executable, Path(__file__).with_name("_comparison_waits.py"), what, str(number)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def waits(size: Size) -> dict[str, Found]:
    """The rows of single calls that wait."""
    found = _in_virtual_time("waits", size.trials)
    found["retry_after"] |= asyncio.run(links.handshakes(size.clients))
    return found


def quota(size: Size) -> dict[str, Found]:
    """The row of the shared quota: for each library the run with the median, each in a process of its own."""
    runs = [_in_virtual_time("quota", run) for run in range(size.runs)]
    return {
        "quota": {
            name: sorted((run[name] for run in runs), key=lambda run: run["lost"])[len(runs) // 2]
            for name in runs[0]
        }
    }


def _stack_of(name: str):
    """Return a library's retry with a circuit and a time limit; of another library, where it has none itself."""
    return next(protect for title, protect in ASYNC_STACKS.items() if title.startswith(name))


def costs(size: Size) -> dict[str, Found]:
    """The two rows of microseconds."""
    return asyncio.run(_costs(size.rounds))


async def _costs(rounds: int) -> dict[str, Found]:
    """Measure a retry alone, and with a circuit and a time limit, on an async function that does nothing; hyx wants a loop to begin with."""
    names = [name for name in ASYNC_RETRIES if name in COLUMNS]
    protects = {(name, 0): ASYNC_RETRIES[name] for name in names}
    protects |= {(name, 1): _stack_of(name) for name in names}
    protects[OURS, 0] = lambda function: rb.Policy(our_retry())(function, idempotent=True)
    protects[OURS, 1] = lambda function: ours_full()(function, idempotent=True)
    cases = {("success", *key): per_call(protect(target)) for key, protect in protects.items()}
    cases |= {("repeat", *key): per_call(protect(flaky())) for key, protect in protects.items()}
    samples = await interleave(cases, rounds)
    return {
        row: {
            name: [samples.low((row, name, part)) / 1e3 for part in (0, 1)]
            for name in (OURS, *names)
        }
        for row in ("success", "repeat")
    }


def effects(size: Size) -> dict[str, Found]:
    """The row of the second effects."""
    return {"effects": asyncio.run(links.effects(size.orders))}


def again(size: Size) -> dict[str, Found]:
    """The row of the calls in doubt that are made again."""
    return {"again": asyncio.run(links.again(size.orders))}


def hedges(size: Size) -> dict[str, Found]:
    """The row of the hedges."""
    clients = {"without": "without", OURS: "Hedge()", "nopanic": "nopanic"}
    rows = {name: hedging.tails(client, size.seeds) for name, client in clients.items()}
    return {"hedge": {name: hedging.worth(rows, name) for name in clients if name in COLUMNS}}


def share(size: Size) -> dict[str, Found]:
    """The row of the calls that are shared."""
    return _in_virtual_time("share", size.callers)


HOSTS = 10


async def _not_fetched(decorate: Callable[[Any], Any], down: int, pages: int) -> int:
    """How many pages of nine hosts a crawler does not get, if the function that fetches them has one circuit."""

    @decorate
    async def fetch(host: int) -> int:
        if host == down:
            raise ConnectionError
        return host

    lost = 0
    for host in range(HOSTS):
        for _ in range(pages):
            try:
                await fetch(host)
            except Exception:  # noqa: BLE001 -- each library rejects with an error of its own
                lost += host != down
    return lost


def hosts(size: Size) -> dict[str, Found]:
    """The row of a host that is down beside others."""
    pages = min(size.orders, 10)
    circuits: dict[str, Callable[[], Any]] = {
        OURS: lambda: rb.Policy(our_breaker(key=lambda host: host)),
        "tenacity": lambda: ASYNC_CIRCUITS["circuitbreaker"](5, 30),
        "stamina": lambda: ASYNC_CIRCUITS["circuitbreaker"](5, 30),
        "nopanic": lambda: nopanic.circuit_breaker(min_calls=5),
        "hyx": lambda: ASYNC_CIRCUITS["hyx"](5, 30),
    }
    of = pages * (HOSTS - 1) * HOSTS
    found: Found = {}
    for name, made in circuits.items():
        lost = (asyncio.run(_not_fetched(made(), down, pages)) for down in range(HOSTS))
        found[name] = {"lost": sum(lost), "of": of}
    return {"hosts": found}


def cuts(size: Size) -> dict[str, Found]:
    """The row of the messages lost in cuts."""
    return {"cuts": asyncio.run(links.cuts(size.cuts))}


def tool_calls(size: Size) -> dict[str, Found]:
    """The row of the calls lost behind a proxy."""
    if not size.only_ours and mcp.NGINX is not None:
        _mcp_relays.install_python("mcp-proxy")
    found = mcp.outage(size.calls, size.outage, only_ours=size.only_ours)
    names = {"resilient-bridge": OURS, "mcp-proxy (PyPI)": "mcp-proxy"}
    return {"tool_calls": {names[name]: value for name, value in found.items()}}


# ---- what is shown --------------------------------------------------------------------------------------------------
def _seconds(found: Found, name: str) -> Cell:
    text = f"{found[name]:.2f} s"
    if name == OURS:
        text += f"; a connection {found[f'{OURS}, a connection']:.2f} s"
    return (Part(text),)


def _second_effects(found: Found, name: str) -> Cell:
    of = found[name]
    held = f", {of['held']} held" if of["held"] else ""
    return (Part(f"{of['second']} of {of['of']}{held}", of["second"]),)


def _shares(found: Found, name: str) -> Cell:
    """Two decimals decide: what looks equal is."""
    return tuple(Part(f"{value:.2f}", round(value, 2)) for value in found[name])


def _requests(found: Found, name: str) -> Cell:
    return tuple(Part(f"{value}", value) for value in found[name])


def _microseconds(found: Found, name: str) -> Cell:
    return tuple(
        Part(f"{value:.1f}" if value < 10 else f"{value:.0f}", value) for value in found[name]
    )


def _lost(found: Found, name: str) -> Cell:
    of = found[name]
    text = f"{of['lost']:,} of {of['of']:,}"
    if of["lost"]:
        silent = of["lost"] - min(of["reported"], of["lost"])
        text += f", {silent:,} silently" if silent else ", reported"
    return (Part(text, of["lost"]),)


def _lost_beside(found: Found, name: str) -> Cell:
    of = found[name]
    return (Part(f"{of['lost']} of {of['of']}", of["lost"]),)


def _lost_to_quota(found: Found, name: str) -> Cell:
    of = found[name]
    return (Part(f"{of['lost']} of {of['of']} in {of['seconds']:.0f} s", of["lost"]),)


def _obeys(found: Found, name: str) -> Cell:
    of = found[name]
    if isinstance(of, dict):
        return (
            Part(
                f"no: {of['early']} of {of['of']} too early" if of["early"] else "yes",
                bool(of["early"]),
            ),
        )
    is_early = of < ASKED
    return (Part(f"no: {of:.1f} s" if is_early else "yes", is_early),)


class Row(NamedTuple):
    """One row: its name, its cells, and in a sentence or two how it is measured."""

    title: str
    measure: Callable[[Size], dict[str, Found]]
    cell: Callable[[Found, str], Cell]
    how: str


ROWS = {
    "first_wait": Row(
        "wait before the first repeat, median",
        waits,
        _seconds,
        "The first call of a function fails with a lost connection; what is measured is the time until the second. Default settings, virtual time. "
        "For connections (websockets' loop, and the second number of ours) it is the first wait of the library's own schedule after an "
        "attempt that failed. Nothing is bold: a wait of 0 s is soonest, and every client of a server that restarts repeats at once.",
    ),
    "effects": Row(
        "second effects of POSTs whose answer is cut",
        effects,
        _second_effects,
        "An HTTP server runs each POST, and cuts the connection before the answer to the first one. It counts how often each ran. Default settings: "
        "`rb.HTTPTransport()` and `RetryTransport()` under an httpx client, the others' decorators around `client.post`, "
        "stamina's with `on=httpx.HTTPError`. Where there is no second effect, the caller gets an error instead.",
    ),
    "again": Row(
        "calls in doubt, asked again at once: ran twice",
        again,
        _second_effects,
        "The same server and the same libraries, but the caller does what a model does: a call that ends with an error is made once more with equal arguments, at "
        "once. Ours is `rb.Policy(rb.Retry())(idempotent=False, effects=rb.stores.Effects(path))` around `client.post`; the others have nothing that "
        "remembers a call. Held means that the second call was not made, and answered `OUTCOME UNKNOWN`: [what settles "
        "it](../how-to/what-if-it-is-called-again.md). The callers of the others have a good answer in the end, and the effect twice. "
        "The ledger costs two flushes to the disk a call.",
    ),
    "success": Row(
        "µs of a success (retry alone / with circuit and time limit)",
        costs,
        _microseconds,
        "An async function that does nothing. First under a retry of three attempts alone, then with a circuit and a time limit of 30 s; tenacity and stamina "
        "take `circuitbreaker` and `asyncio.timeout` for these. Ours also keeps its retry budget. The least of all rounds, which are shuffled.",
    ),
    "repeat": Row(
        "µs of a failure and its repeat (the same two)",
        costs,
        _microseconds,
        "The function fails, is repeated at once, and succeeds. Ours finds out what the failure means, and whether the call may be repeated, before it repeats.",
    ),
    "cuts": Row(
        "messages lost in 50 cuts",
        cuts,
        _lost,
        "A bridge on a real socket that acknowledges, remembers a session and replays; a proxy resets the connection every 20 messages, and messages go "
        "both ways every 10 ms. What is missing is counted at the bridge and at the consumer. Ours is `rb.BridgeClient` with its caps on reconnections "
        "lifted, because the cuts come faster. websockets' loop is the one of its documentation; a message whose `send` raised is sent "
        "again, and nothing is asked for again, because the loop knows no position.",
    ),
    "tool_calls": Row(
        "MCP tool calls lost while nginx answers 502",
        tool_calls,
        _lost,
        "A streamable HTTP server behind nginx is killed, and is back after 4 s; ten calls a second go through the relay, 6 s long. Lost "
        "is a call without a good answer 20 s after the last one. Ours answers the call that was under way with `OUTCOME UNKNOWN`, because a "
        "502 does not say whether it ran; mcp-proxy is the one from PyPI.",
    ),
    "quota": Row(
        "calls lost by 16 agents on a quota of 4",
        quota,
        _lost_to_quota,
        "Sixteen agents make 20 calls each, of two seconds each; the server serves four at once and answers others with a 429 without "
        "Retry-After. An agent that lost a call goes on after 5 s. Virtual time; the run with the median of nine, in a process each. Ours is "
        "`rb.HTTPTransport()`; httpx-retries is `RetryTransport()`; tenacity `wait_exponential_jitter()` with 5 attempts, stamina its defaults, "
        "nopanic `retry(attempts=5)` over `adaptive_rate_limit(5, min_rate=0.5)`, hyx its default with 5 calls.",
    ),
    "hedge": Row(
        "hedge: p99 as a share of without / requests a call (p95 / requests while the server is slow)",
        hedges,
        _shares,
        f"A server with {hedging.WORKERS} workers and one queue gets {hedging.PER_SECOND:g} calls a second, and {100 * hedging.STRAGGLERS:g} % of its answers take "
        f"{hedging.TIMES:g} times as long. Then, in parentheses, it is three times slower for five minutes, more than it can serve: the p95 is that of these calls, the "
        "requests are those of both times. Real code in virtual time, medians of five seeds (`bench/hedging.py`). Ours is `Hedge()`, which "
        f"learns its delay and has a budget; nopanic's is `hedge(delay={hedging.USUAL:g})`, the time of 95 % of the answers of a steady server.",
    ),
    "share": Row(
        "calls that reach the server for 100 callers at once / with the first one cancelled",
        share,
        _requests,
        "A hundred tasks make the same call together, which takes a second; then the same, but the task that came first is cancelled after half a second. The "
        "others get their answer in every case. Ours is `Share(key=…)`, nopanic's `cache(ttl=60)`; the others share nothing. Virtual time.",
    ),
    "hosts": Row(
        "pages of nine hosts that a crawler does not get because a tenth is down",
        hosts,
        _lost_beside,
        "One async function fetches ten pages of each of ten hosts, one host after the other, and one host refuses each connection: each of the ten in turn, in ten runs. A "
        "circuit of five failures (nopanic: half of the calls of 30 s, five at the least) is open for 30 s. Ours is `Breaker.consecutive(5, key=lambda host: host)`, one circuit for each "
        "host; those of the others belong to the function. tenacity and stamina take `circuitbreaker`. With a function for each host that you make by hand it is 0 for all of them.",
    ),
    "retry_after": Row(
        "obeys Retry-After by default",
        waits,
        _obeys,
        f"A 429 with `Retry-After: {ASKED}`, in virtual time: how long the library waits. For websockets' loop it is a handshake that is refused with 503 and "
        "`Retry-After: 2`, in real time: how many clients come back too early; `rb.reconnecting` does the same in the same run.",
    ),
}
MEASURES = (
    costs,
    waits,
    quota,
    effects,
    again,
    hedges,
    share,
    hosts,
    cuts,
    tool_calls,
)  # the costs first, while nothing else runs


def measured(names: list[str], size: Size) -> dict[str, Found]:
    """Measure what these rows need."""
    found: dict[str, Found] = {}
    for measure in MEASURES:
        if any(ROWS[name].measure is measure for name in names):
            found |= measure(size)
    return {name: found[name] for name in names}


def cells(name: str, found: Found) -> dict[str, Cell]:
    """Return the cells of a row by library."""
    if found.get(f"{OURS}, a handshake", {}).get("early"):  # the worse of our two
        found = {**found, OURS: found[f"{OURS}, a handshake"]}
    return {column: ROWS[name].cell(found, column) for column in COLUMNS if column in found}


def _best(row: dict[str, Cell], index: int) -> float | None:
    ranks = [cell[index].rank for cell in row.values() if cell[index].rank is not None]
    return min(ranks, default=None)


HEAD = f"| | {' | '.join(COLUMNS.values())} |\n{'|---' * (len(COLUMNS) + 1)}|"


def table(results: dict[str, Found]) -> dict[str, str]:
    """Return the lines of the table in Markdown, by title."""
    shown = {}
    for name, found in results.items():
        row = cells(name, found)
        texts = [ROWS[name].title]
        for column in COLUMNS:
            parts = enumerate(row.get(column, NOTHING))
            texts.append(
                " / ".join(
                    f"**{part.text}**"
                    if part.rank is not None and part.rank == _best(row, index)
                    else part.text
                    for index, part in parts
                )
            )
        shown[ROWS[name].title] = f"| {' | '.join(texts)} |"
    return shown


def better_elsewhere(results: dict[str, Found]) -> dict[str, str]:
    """Return a line for each row in which another library is better than ours in something, by title."""
    found = {}
    for name, values in results.items():
        row = cells(name, values)
        ours = row.pop(OURS, NOTHING)
        before = [
            f"{COLUMNS[column]} {' / '.join(part.text for part in cell)}"
            for column, cell in row.items()
            if any(
                mine.rank is not None and part.rank < mine.rank
                for part, mine in zip(cell, ours, strict=True)
            )
        ]
        if before:
            texts = " / ".join(part.text for part in ours)
            title = ROWS[name].title
            found[title] = f"- {title}: {', '.join(before)}; ours {texts}."
    return found


def versions() -> str:
    """Return what was measured, in one line."""
    names = [
        "resilient-bridge",
        *(name for name in COLUMNS if name not in {OURS, "mcp-proxy"}),
        "httpx",
    ]
    found = [f"{name} {version(name)}" for name in names]
    return ", ".join(
        [
            *found,
            f"mcp-proxy {_mcp_relays.PYPI['mcp-proxy']}",
            f"Python {platform.python_version()}",
        ]
    )


def measured_with(results: dict[str, Found]) -> str:
    """Return when and where rows were measured; which ones, if not all."""
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.release()}, load {os.getloadavg()[0]:.0f}"
    when = f"Measured on {datetime.now(UTC):%Y-%m-%d} with {versions()}; {machine}"
    return f"{when}{'' if len(results) == len(ROWS) else f': {_listed(results)}'}."


def _listed(names: Iterable[str]) -> str:
    return "; ".join(ROWS[name].title for name in names)


def page(results: dict[str, Found], before: str) -> str:
    """Return docs/reference/comparison.md; what was not measured stays as it was before."""
    same = [row.title for name, row in ROWS.items() if name not in results]
    shown = table(results) | earlier.lines(before, "| ", same)
    better = better_elsewhere(results) | earlier.lines(before, "- ", same)
    these = f": {_listed(results)}."
    runs = [line for line in earlier.runs(before) if same and not line.endswith(these)]
    parts = [
        "# Python retry and reconnect libraries compared",
        "Generated by `python bench/comparison.py --page`; edit that script instead.",
        INTRODUCTION,
        "\n".join([HEAD, *(shown[row.title] for row in ROWS.values())]),
        "\n\n".join([*runs, measured_with(results)]),
        "## How each row is measured",
        "\n".join(f"- **{row.title}**: {row.how}" for row in ROWS.values()),
        "## What others do better",
        "\n".join([*(better[row.title] for row in ROWS.values() if row.title in better), *BETTER]),
        "## What the numbers do not say",
        LIMITS,
    ]
    return "\n\n".join(parts) + "\n"


INTRODUCTION = """\
This page compares resilient-bridge with tenacity, stamina, nopanic, hyx, httpx-retries, the reconnecting loop of websockets and mcp-proxy. The
numbers of a row were measured in one run against the installed libraries. The best of a row is bold, whoever it is; a dash means that a library
does not do that."""
BETTER = [
    "- nopanic keeps the answers of sync functions, too; `Share` takes async ones only.",
    "- nopanic and hyx have no dependencies; nopanic and tenacity run on trio, this package on asyncio and threads.",
    "- httpx-retries is one small transport, if all that you want is to repeat requests that are safe to repeat.",
    "- [Coming from tenacity](../how-to/coming-from-tenacity.md) and the pages beside it say what else differs, and when to stay.",
]
LIMITS = """\
- A time on this page means nothing on another machine; a ratio within a row does. A function that does some work costs far more than
  any of these libraries: one request over loopback takes several hundred microseconds.
- Default settings are compared where a library has them. With other settings most of them behave differently: tenacity with a condition does
  not repeat a POST, and nopanic obeys a `retry_after` that you put on the exception.
- The bridge of the row about cuts speaks the protocol of `rb.BridgeClient`. Against a server that neither acknowledges nor replays, no client can
  find out what was lost: [what a dialect promises](../dialects/index.md).
- Relays for MCP are compared in more detail [on a page of their own](mcp-compared.md), HTTP transports by `bench/http_transport.py`, circuits by `bench/traps.py`."""


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", default=",".join(ROWS), help=f"of {', '.join(ROWS)}")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--page", action="store_true")
    asked = parser.parse_args()
    asked.names = asked.rows.split(",")
    if unknown := set(asked.names) - set(ROWS):
        parser.error(f"rows are {', '.join(ROWS)}; got {', '.join(sorted(unknown))}")
    if asked.page and asked.quick:
        parser.error("a page has rows that are measured in full: expected no --quick beside --page")
    same = {name: ROWS[name].title for name in ROWS if name not in asked.names}
    if asked.page and (absent := earlier.absent(PAGE.read_text(), HEAD, same)):
        parser.error(
            f"the page has no numbers of these rows in this table: expected --rows to have also {', '.join(absent)}"
        )
    return asked


def main() -> None:
    """Measure, then print."""
    asked = arguments()
    logging.getLogger("resilient_bridge").setLevel(logging.CRITICAL + 1)
    results = measured(asked.names, QUICK if asked.quick else FULL)
    if asked.json:
        print(json.dumps({"versions": versions(), "rows": results}, indent=2))
        return
    if asked.page:
        PAGE.write_text(page(results, PAGE.read_text()))
    print(f"{versions()}\n")
    if asked.quick:
        print("Quick: there is less of everything than the rows say.\n")
    print("\n".join([HEAD, *table(results).values()]))
    for name in asked.names:
        if not results[name]:
            print(f"\n{ROWS[name].title}: not measured, nginx is not installed")


if __name__ == "__main__":
    main()
