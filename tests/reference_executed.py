"""The page of proofs: docs/reference/executed.md."""

from __future__ import annotations

from resilient_bridge.failure import OWN_WORDS
from tests.internals.failure import PROOFS

from .reference_layout import page, table


def executed_page() -> str:
    """The table of proofs, and what follows from it."""
    rows = [
        (
            f"`{name}`",
            proof.event,
            proof.seen_by,
            proof.why,
            "the call" if name in OWN_WORDS else "the request",
        )
        for name, proof in PROOFS.items()
    ]
    return page(
        "Proofs that a call did not run",
        [
            "`Failure.executed` is `no` only with one of these proofs; `Failure.proof` has its name. Without a proof `executed` is `maybe`: the call may have run.",
            "This includes every error of a class that some code path raises after the first byte of a request was sent.",
        ],
        table("proof | what happened | seen by | why nothing can have run | is about", rows),
        [
            "",
            "A proof about a request proves something about the whole call only if the call is that one request: under `HTTPTransport`, in one request of a `Peer`,",
            "and in a call of a wrapped SDK that sent one request (requests are counted, redirects too). An error that leaves a function of yours, a tool, a phase,",
            "or a method of any other object is `maybe`, whatever the underlying error proves.",
            "",
            "429 is no proof. By convention providers send it before they do any work, so it permits the repeat of a request that this package sent itself",
            "(`RetryScheduled.permission` is `limiter`). `executed` stays `maybe`, and `idempotent=False` forbids that repeat. A call answered with 408, 409, 423, 499",
            'or any 5xx may have run. Any other 4xx is reported as "refused by the server", and is not repeated.',
            "",
            "For each row a test of that name in tests/adapters/test_proofs_on_wires.py shows the proof on a real connection.",
        ],
    )
