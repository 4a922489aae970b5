"""`executed=NO` comes only from the table of proofs: every exception class of every client is checked against it."""

from __future__ import annotations

import inspect
from itertools import product

import httpx
import pytest

import resilient_bridge as rb
from resilient_bridge.failure import CODES, OWN_LAYER, OWN_WORDS
from tests.internals.failure import PROOFS
from tests.rows import each_row


MODULES = (
    "builtins",
    "httpx",
    "httpx2",
    "httpcore",
    "websockets.exceptions",
    "requests.exceptions",
    "urllib3.exceptions",
    "aiohttp",
    "openai",
    "anthropic",
    "google.genai.errors",
    "mcp",
    "mcp.shared.exceptions",
    "ssl",
    "socket",
    "subprocess",
    "asyncio",
)
# A class proves something only if no code path raises it after the first byte of the request was sent.
PROVING = {
    "not_connected": {"ConnectError", "ConnectionRefusedError"},
    "not_resolved": {"gaierror", "herror"},
    "connect_timeout": {"ConnectTimeout"},
    "pool_timeout": {"PoolTimeout"},
    "tls_failed": {"SSLCertVerificationError"},
    "tunnel_refused": {"ProxyError", "InvalidProxyStatus"},
    "upgrade_refused": {"InvalidHandshake"},
}


def classes():
    for name in MODULES:
        module = pytest.importorskip(name)
        for cls in list(vars(module).values()):
            if (
                inspect.isclass(cls)
                and issubclass(cls, Exception)
                and not issubclass(cls, rb.BridgeError)
            ):
                yield cls


def test_no_class_outside_the_table_proves_anything():
    """Of 299 classes and more, each one with a proof is listed, by itself or by a base class."""
    seen = 0
    for cls in set(classes()):
        try:
            failure = rb.classify(cls.__new__(cls))
        except (TypeError, cls):  # needs arguments, or is a cancellation
            continue
        seen += 1
        if failure.executed is rb.errors.Executed.NO:
            names = {base.__name__ for base in cls.__mro__}
            assert failure.proof in PROOFS
            assert names & PROVING[failure.proof], cls
        else:
            assert failure.proof == ""
    assert seen > 250


@each_row("status", range(400, 600))
def test_a_status_proves_what_its_specification_says(status):
    """401, 407, 421, 425 and 426 are proofs; any other 4xx is a refusal, except those of a server that may have started."""
    failure = rb.classify(httpx.Response(status))
    if status in {401, 407, 421, 425, 426}:
        assert (failure.executed, failure.proof) == (rb.errors.Executed.NO, f"http_{status}")
        return
    assert (failure.executed, failure.proof) == (rb.errors.Executed.MAYBE, "")
    is_refusal = status < 500 and status not in {408, 409, 423, 429, 499}
    assert ("refused by the server" in failure.explain()) is is_refusal
    assert ("it may have run" in failure.explain()) is not is_refusal


def test_a_number_of_json_rpc_proves_what_its_specification_says():
    """-32700 and -32601 are proofs; a peer's own `executed: no` is not, and neither is `retryable: true`."""
    data_of_peers = (
        {},
        {"retryable": True},
        {"executed": "no"},
        {"retryable": True, "type": "TIMEOUT"},
    )
    for number, data in product(range(-32768, -31999), data_of_peers):
        failure = rb.Failure.from_mcp({"code": number, "message": "no", "data": data})
        proof = {-32700: "rpc_not_parsed", -32601: "rpc_unknown_method"}.get(number, "")
        if not (data and proof):
            assert failure.proof == proof, (number, data)
        assert (failure.executed is rb.errors.Executed.NO) is bool(failure.proof)


def test_a05_a_mark_of_the_peer_is_no_statement_about_the_call():
    """A worker's timeout marked as retryable does not prove that the call did not run."""
    error = {
        "code": -32001,
        "message": "Worker w1 timed out",
        "data": {"type": "TIMEOUT", "retryable": True},
    }
    failure = rb.Failure.from_mcp(error)
    assert (failure.retryable, failure.executed) == (True, rb.errors.Executed.MAYBE)
    assert "it did not run" not in failure.explain()


@each_row("code", CODES)
def test_a_code_of_a_peer_is_no_proof(code):
    """No code in an error message or an HTTP body proves that the call did not run."""
    from resilient_bridge.failure import classify_error_payload

    failure = classify_error_payload({"code": code, "message": "said"})
    assert failure.executed is not rb.errors.Executed.NO


def test_the_table_says_why_and_where():
    """Every row has its reasons, and the proofs that calls look for are rows."""
    for name, proof in PROOFS.items():
        assert proof.event, name
        assert proof.seen_by, name
        assert proof.why, name
    assert {OWN_LAYER, *OWN_WORDS} <= PROOFS.keys()
