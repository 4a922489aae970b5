"""What tests use of `resilient_bridge.failure` below its door."""

from __future__ import annotations

from tests.internals import lazily


__getattr__ = lazily(
    "resilient_bridge.failure",
    {
        "": "dispatch is_refusal redaction secret_shapes",
        "accepted_lines": "accepted_line",
        "contents": "parse_http_date wait_from_headers",
        "exits": "EXITS",
        "extras": "EXTRAS how_to_install needed",
        "failure": "Finding",
        "foreign_words": "example",
        "lookup": "raw_failure",
        "record": "ended Record",
        "statuses": "upgrade_finding",
        "system": "tls_finding",
        "vocabulary": "PROOFS",
        "wrong_values": "line_for_value line_with",
    },
)
