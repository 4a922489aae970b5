"""`python -m resilient_bridge` is the command line. Rule: nothing lives here but the hand-over."""

from __future__ import annotations

import sys

from .cli import main


if __name__ == "__main__":
    sys.exit(main())
