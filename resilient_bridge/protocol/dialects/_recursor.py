"""ReCursor's bridge, as its specification says."""

from __future__ import annotations

from typing import Final

from ..policies.dialect import Dialect


recursor: Final = Dialect()
"""Sessions that are joined again, a replay since a timestamp, acknowledgements, pings. What a server refuses of it is gone without."""
