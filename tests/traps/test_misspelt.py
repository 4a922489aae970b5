"""A misspelt option, or one that cannot work, is reported at its definition, not at its first use."""

from __future__ import annotations

import httpx
import pytest

import resilient_bridge as rb


def test_e23_an_unused_circuit_may_be_misspelt():
    """Reading or changing its state warns and names the nearest key; entering a block uses it, and then it exists."""
    protected = rb.Policy(rb.Breaker(key="e23 payments"))(print)
    for use, name in (
        (lambda handle: handle.state, "e23 paymnets"),
        (lambda handle: handle.retry_after, "e23 payment"),
        (lambda handle: handle.isolate(), "e23payments"),
        (lambda handle: handle.disable(), "e23 paiments"),
        (lambda handle: handle.reset(), "E23 payments"),
    ):
        rb.calls.circuit(name)
        with pytest.warns(UserWarning, match=f"'{name}' yet: did you mean 'e23 p"):
            use(rb.calls.circuit(name))
    assert rb.calls.circuit("e23 payments").state == rb.calls.circuit(protected).state == "closed"
    with rb.calls.circuit("e23 a block"):
        assert rb.calls.circuit("e23 a block").state == "closed"


def test_e23_nothing_is_injected_where_policies_are_off():
    """Injection inside `disabled` would test nothing and is refused; the other order is allowed."""
    call = rb.Policy(rb.Retry())(lambda: "ok", idempotent=True)
    with rb.testing.disabled():
        with (
            pytest.raises(rb.ConfigError, match=r"^inject: .*disabled\(\)"),
            rb.testing.inject(call, 503),
        ):
            pass
        assert call() == "ok"


def test_e23_a_timeout_that_a_sync_transport_cannot_obey():
    """It is refused by a requests adapter, by a transport over a sync one, and when a sync client is entered."""
    policy = rb.Policy(rb.Retry(), rb.Timeout(2))
    for make, path in (
        (lambda: rb.HTTPAdapter(policy), "HTTPAdapter.policy"),
        (lambda: rb.HTTPTransport(policy, httpx.HTTPTransport()), "HTTPTransport.policy"),
        (
            lambda: httpx.Client(transport=rb.HTTPTransport(policy)).__enter__(),
            "HTTPTransport.policy",
        ),
    ):
        with pytest.raises(
            rb.ConfigError, match=rf"^{path}: wanted Timeout\(…, thread=True\) or none"
        ):
            make()
    threaded = rb.Policy(rb.Timeout(2, thread=True))
    assert rb.HTTPAdapter(threaded)
    with httpx.Client(transport=rb.HTTPTransport(threaded)):
        pass
    assert rb.HTTPTransport(policy, httpx.AsyncHTTPTransport())


@pytest.mark.parametrize("made", [rb.HTTPTransport, rb.HTTPAdapter, rb.HTTPMiddleware])
def test_a_bad_option_is_named_after_the_class_that_got_it(made):
    """The error names the user's class, not an internal one."""
    for option, value in (
        ("policy", "often"),
        ("idempotency_header", "no header"),
        ("allow_plaintext_credentials", 1),
    ):
        with pytest.raises(rb.ConfigError, match=rf"^{made.__name__}\.{option}: "):
            made(**{option: value})
