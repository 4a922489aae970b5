"""What tests use of `resilient_bridge.report` below its door."""

from __future__ import annotations

from tests.internals import lazily


__getattr__ = lazily(
    "resilient_bridge.report",
    {
        "": "links",
        "lines": "safe",
        "summary": "headline",
        "series": "BINS Bins First Lane Largest MIXED Named Tally add",
    },
)
