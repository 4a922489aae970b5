"""`python -m resilient_bridge` runs the command line. Rule: this module only calls it."""

from __future__ import annotations

import sys

from .cli import main


if __name__ == "__main__":
    sys.exit(main())
