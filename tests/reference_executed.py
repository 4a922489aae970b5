"""The page of proofs: docs/reference/executed.md."""

from __future__ import annotations

from tests.internals.classification import PROOFS

from .reference_layout import page, table


def executed_page() -> str:
    """The table of proofs, and what follows from it."""
    rows = [
        (
            f"`{name}`",
            proof.event,
            proof.seen_by,
            proof.why,
            "the call" if proof.is_of_call else "the request",
        )
        for name, proof in PROOFS.items()
    ]
    return page(
        "executed",
        "What proves that a call did not run",
        [
            "`Failure.executed` is `no` only with one of these proofs, whose name stands in `Failure.proof`. Everything else may have run:",
            "`maybe`, and so does an error of a class that any code path raises after the first byte of a request was sent.",
            "",
        ],
        table("proof | what happened | seen by | why nothing can have run | speaks of", rows),
        [
            "",
            "A proof that speaks of a request is one of the whole call only where the call is that one request: under `HTTPTransport`, in one",
            "request of a `Peer`, in a call of a wrapped SDK that sent one request (they are counted, redirects too). What crosses the boundary",
            "of a function of yours, a tool, a phase, or a method of any other object is `maybe`, whatever the error below it proves.",
            "",
            "429 is no proof. By convention providers answer it before they begin, so it allows the repeat of a request that we sent ourselves",
            "(`RetryScheduled.permission` is `limiter`), `executed` stays `maybe`, and `idempotent=False` closes that door. 408, 409, 423, 499",
            'and every 5xx may have run. Any other 4xx is told as "refused by the server", and not repeated.',
            "",
            "Each row is shown on a real wire by the test of its name in tests/adapters/test_proofs_on_wires.py.",
        ],
    )
