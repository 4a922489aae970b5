"""What tests use of `resilient_bridge.classification` below its door."""

from __future__ import annotations

from tests.internals import lazily


__getattr__ = lazily(
    "resilient_bridge.classification",
    {
        "": "dispatch",
        "exits": "EXITS",
        "finding": "Finding",
        "lookup": "raw_failure",
        "proofs": "PROOFS",
        "retry_after": "parse_http_date wait_from_headers",
        "statuses": "status_finding",
        "tls_errors": "tls_finding",
    },
)
