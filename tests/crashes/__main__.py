"""`python -m tests.crashes NAME SEED KILLS [VARIANT]`: one campaign, repeated in kind."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from functools import partial
from pathlib import Path

from .accounts import BrokenError
from .campaign import Campaign


say = partial(print, file=sys.stdout)  # what a command prints is its result


def main() -> int:
    """Run and report; 1 if a promise was broken."""
    name, seed, kills, *variant = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="crashes-") as directory:
        campaign = Campaign(
            name, int(seed), int(kills), Path(directory), variant=variant[0] if variant else None
        )
        try:
            accounts = asyncio.run(campaign.run())
        except BrokenError as error:
            say(error)
            return 1
    say(f"{accounts.totals()} in {campaign.seconds:.1f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
