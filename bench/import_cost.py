"""P9, its BridgeClient half: what the first BridgeClient of a process costs, against importing what it stands on.

    python bench/import_cost.py [rounds]

Claim: import and construction <= 1.3 x `import asyncio, attrs, websockets.asyncio.client`, and neither httpx, tenacity, sqlite3
nor email is loaded by it. Fresh interpreters (`-I`), interleaved. websockets itself is loaded by the first connect, not by
the construction: the row "ready to dial" adds that, so that nothing is hidden.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from functools import partial
from pathlib import Path

from _measure import holds, interleave, rounds_asked, table

import resilient_bridge


ROOT = str(Path(resilient_bridge.__file__).parents[1])
UNWANTED = ("httpx", "tenacity", "sqlite3", "email")
BASE = "import asyncio, attrs, websockets.asyncio.client"
FIRST = "from resilient_bridge import BridgeClient; BridgeClient('wss://bridge.example/ws')"
CASES = {
    f"`{BASE}`": BASE,
    "first BridgeClient": FIRST,
    "first BridgeClient, after asyncio, attrs, websockets": f"{BASE}\n{FIRST}",
    "first BridgeClient, ready to dial": f"{FIRST}; import resilient_bridge.transports.websocket",
}
# websockets loads python_socks where it is installed (picows brings it): neither side may pay, or profit, from that.
CODE = """
import sys, time
sys.path.insert(0, {root!r})
sys.modules["python_socks"] = None
start = time.perf_counter()
{statement}
print((time.perf_counter() - start) * 1e3, len(sys.modules), *({unwanted!r} & sys.modules.keys()))
"""
loaded: dict[str, list[str]] = {}


async def fresh(name: str, statement: str) -> float:
    """Milliseconds in an interpreter of its own."""
    code = CODE.format(root=ROOT, statement=statement, unwanted=set(UNWANTED))
    command = [sys.executable, "-I", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: ASYNC221
    spent, *loaded[name] = done.stdout.split()
    return float(spent)


async def main() -> None:
    """Measure, then print."""
    rounds = rounds_asked(21)
    samples = await interleave(
        {name: partial(fresh, name, text) for name, text in CASES.items()}, rounds
    )
    base, constructed = list(CASES)[:2]
    rows = []
    for name in CASES:
        ratio = samples.ratio(name, base)
        modules, *unwanted = loaded[name]
        verdict = ["", ""] if name == base else [1.3, holds(ratio, 1.3)]
        if name == constructed and unwanted:
            verdict[1] = f"missed: loads {', '.join(unwanted)}"
        spent = [samples.low(name), ratio, samples.paired(name, base)]
        rows.append([name, *spent, modules, ", ".join(sorted(unwanted)) or "none", *verdict])
    head = ["fresh interpreter", "ms, min", "x base, min/min", "x base, paired median", "modules"]
    table(f"P9: {rounds} rounds", [*head, "of httpx tenacity sqlite3 email", "goal <=", "P9"], rows)


if __name__ == "__main__":
    asyncio.run(main())
