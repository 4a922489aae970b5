"""The errors and responses of requests, urllib3 and aiohttp, against servers that break in every way."""

from __future__ import annotations

import ssl

import aiohttp
import pytest
import requests
import urllib3

import resilient_bridge as rb
from resilient_bridge.failure import classify
from tests.failure.wires import Wires, running


pytestmark = pytest.mark.real

_SOON = 0.4  # seconds until a client gives up waiting
CONNECTIONS = {
    "refused": "CONN_REFUSED yes",
    "dns": "CONN_DNS_FAILED yes",
    "full": "CONN_TIMEOUT yes",
    "silent": "CONN_TIMEOUT yes",
    "closed": "CONN_RESET yes",
    "cut": "CONN_RESET yes",
    "chunk": "CONN_RESET yes",
    "garbage": "PROTO_INVALID_FRAME no",
    "certificate": "CONN_TLS_HANDSHAKE_FAILED no",
    "handshake": "CONN_RESET yes",
    "redirected": "CONN_REFUSED yes",
    "round": "PROTO_INVALID_MESSAGE no",
}
STATUSES = {
    "busy": ("SYS_UNAVAILABLE yes", None),
    "limited": ("SYS_RATE_LIMITED yes", 7.0),
    "missing": ("SYS_UPSTREAM_REJECTED no", None),
}


@pytest.fixture(scope="module")
def wires():
    """The servers, once for all tests of this file."""
    with running() as running_wires:
        yield running_wires


def _row(failure) -> str:
    return f"{failure.code} {'yes' if failure.retryable else 'no'}"


def _session() -> requests.Session:
    session = requests.Session()
    session.trust_env = False
    return session


def _aiohttp(**options) -> aiohttp.ClientSession:
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_SOON, sock_read=_SOON)
    return aiohttp.ClientSession(timeout=timeout, **options)


# ---- raised ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("wire", "wanted"), CONNECTIONS.items())
def test_f01_requests_on_a_broken_wire(wires: Wires, wire, wanted):
    """The error below the wrappers decides; it may have run, because redirects are followed."""
    with _session() as session, pytest.raises(requests.RequestException) as caught:
        session.get(wires.url(wire), timeout=_SOON)
    failure = classify(caught.value)
    assert (_row(failure), failure.executed) == (wanted, "maybe")
    assert failure.message
    assert failure.cause is caught.value


@pytest.mark.parametrize(
    ("wire", "wanted"),
    [row for row in CONNECTIONS.items() if row[0] not in {"redirected", "round"}],
)
@pytest.mark.parametrize("retries", [False, 0], ids=["bare", "max retries"])
def test_f01_urllib3_on_a_broken_wire(wires: Wires, wire, wanted, retries):
    """The error alone, and within its MaxRetryError."""
    pool = urllib3.PoolManager(timeout=_SOON, retries=retries)
    with pool, pytest.raises(urllib3.exceptions.HTTPError) as caught:
        pool.request("GET", wires.url(wire))
    failure = classify(caught.value)
    assert (_row(failure), failure.executed) == (wanted, "maybe")


def test_f01_urllib3_gives_up_on_a_status(wires: Wires):
    """After its own retries the status is only in the text, and so it is in requests' RetryError."""
    often = urllib3.Retry(1, status_forcelist=[503], respect_retry_after_header=False)
    pool = urllib3.PoolManager(timeout=5, retries=often)
    with pool, pytest.raises(urllib3.exceptions.MaxRetryError) as caught:
        pool.request("GET", wires.url("busy"))
    assert _row(classify(caught.value)) == "SYS_UNAVAILABLE yes"
    with _session() as session:
        session.mount("http://", requests.adapters.HTTPAdapter(max_retries=often))
        with pytest.raises(requests.exceptions.RetryError) as again:
            session.get(wires.url("busy"), timeout=5)
    assert (_row(classify(again.value)), classify(again.value).executed) == (
        "SYS_UNAVAILABLE yes",
        "maybe",
    )


@pytest.mark.parametrize(("wire", "wanted"), CONNECTIONS.items())
async def test_f01_aiohttp_on_a_broken_wire(wires: Wires, wire, wanted):
    """The same rows, and it follows redirects as well."""
    async with _aiohttp() as session:
        with pytest.raises((aiohttp.ClientError, TimeoutError)) as caught:
            async with session.get(wires.url(wire)) as response:
                await response.read()
    failure = classify(caught.value)
    assert (_row(failure), failure.executed) == (wanted, "maybe")


async def test_f01_aiohttp_has_times_of_several_kinds(wires: Wires):
    """The total, the wait for a free connection, and a connection that comes too late."""
    connector = aiohttp.TCPConnector(limit=1)
    async with aiohttp.ClientSession(connector=connector) as session:
        for limit in (
            aiohttp.ClientTimeout(total=0.2),
            aiohttp.ClientTimeout(connect=0.2, sock_read=0.3),
        ):
            with pytest.raises((aiohttp.ClientError, TimeoutError)) as caught:
                await session.get(wires.url("silent"), timeout=limit)
            assert _row(classify(caught.value)) == "CONN_TIMEOUT yes"


async def test_f01_aiohttp_by_hand():
    """Pins, a wrong url, a closed session."""
    made = {
        "CONN_TLS_HANDSHAKE_FAILED no": aiohttp.ServerFingerprintMismatch(
            b"a" * 32, b"b" * 32, "h", 1
        ),
        "SYS_CONFIG_INVALID no": aiohttp.InvalidURL("http://"),
        "CONN_RESET yes": aiohttp.ServerDisconnectedError(),
    }
    for wanted, error in made.items():
        assert _row(classify(error)) == wanted


# ---- statuses, raised and returned -------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", STATUSES)
def test_f01_a_status_of_requests(wires: Wires, wire):
    """Raised by `raise_for_status` and returned: the same failure, with Retry-After."""
    wanted, wait = STATUSES[wire]
    with _session() as session:
        response = session.get(wires.url(wire), timeout=5)
        with pytest.raises(requests.HTTPError) as caught:
            response.raise_for_status()
    for answer in (response, caught.value):
        failure = classify(answer)
        assert failure is not None
        assert (_row(failure), failure.retry_after) == (wanted, wait)
    assert classify(caught.value).details["http_status"] == response.status_code


def test_f01_an_unread_body_is_not_read_by_us(wires: Wires):
    """With `stream=True`, reading requests' `content` would wait for the network."""
    with (
        _session() as session,
        session.get(wires.url("bad key"), timeout=5, stream=True) as response,
    ):
        assert classify(response).code == "AUTH_TOKEN_EXPIRED"
        assert response._content is False
        assert response.content
        assert classify(response).code == "AUTH_INVALID_TOKEN"


@pytest.mark.parametrize("wire", STATUSES)
async def test_f01_a_status_of_aiohttp(wires: Wires, wire):
    """Raised by `raise_for_status` and returned."""
    wanted, wait = STATUSES[wire]
    async with _aiohttp() as session, session.get(wires.url(wire)) as response:
        with pytest.raises(aiohttp.ClientResponseError) as caught:
            response.raise_for_status()
        for answer in (response, caught.value):
            failure = classify(answer)
            assert failure is not None
            assert (_row(failure), failure.retry_after) == (wanted, wait)


def test_f01_a_status_of_urllib3(wires: Wires):
    """urllib3 returns a status and does not raise it."""
    with urllib3.PoolManager(timeout=5, retries=False) as pool:
        failure = classify(pool.request("GET", wires.url("limited")))
        assert failure is not None
        assert (_row(failure), failure.retry_after) == ("SYS_RATE_LIMITED yes", 7.0)
        assert classify(pool.request("GET", wires.url("page"))) is None


async def test_f01_an_answer_that_is_not_json(wires: Wires):
    """An error page with status 200."""
    with _session() as session, pytest.raises(requests.JSONDecodeError) as caught:
        session.get(wires.url("page"), timeout=5).json()
    assert _row(classify(caught.value)) == "PROTO_INVALID_MESSAGE no"
    async with _aiohttp() as session:
        with pytest.raises(aiohttp.ContentTypeError) as other:
            async with session.get(wires.url("page")) as response:
                await response.json()
    assert _row(classify(other.value)) == "PROTO_INVALID_MESSAGE no"


async def test_a_proxy_that_asks_for_credentials(wires: Wires):
    """A 407 of a tunnel is not retried, whichever client raises it."""
    proxy = wires.url("proxy")
    with _session() as session, pytest.raises(requests.exceptions.ProxyError) as caught:
        session.get("https://127.0.0.1:1/", proxies={"https": proxy}, timeout=5)
    async with _aiohttp() as client:
        with pytest.raises(aiohttp.ClientHttpProxyError) as other:
            await client.get("https://127.0.0.1:1/", proxy=proxy)
    for error in (caught.value, other.value):
        assert (classify(error).code, classify(error).retryable) == ("AUTH_FORBIDDEN", False)


def test_f01_the_policy_around_requests_works(wires: Wires):
    """The reported case: a raised 503 is retried, and opens the circuit."""
    policy = rb.Policy(
        rb.Retry(attempts=3, backoff=rb.Backoff.constant(0), budget=None), rb.Breaker.consecutive(3)
    )
    calls = []

    @policy(idempotent=True)
    def fetch() -> None:
        calls.append(1)
        with _session() as session:
            session.get(wires.url("busy"), timeout=5).raise_for_status()

    with pytest.raises(requests.HTTPError):
        fetch()
    assert len(calls) == 3
    assert rb.calls.circuit(fetch).state == "open"
    with pytest.raises(rb.CircuitOpenError):
        fetch()


def test_f01_a_wrapped_session_repeats_what_it_is_returned(wires: Wires):
    """With `rb.wrap(session)` a returned 429 is retried."""
    with _session() as session:
        policy = rb.Policy(rb.Retry(attempts=3, budget=None))
        wrapped = rb.wrap(session, policy, methods=["get"], idempotent={"get"})
        before = wires.counts["limited"]
        with rb.testing.virtual_time() as time:
            assert wrapped.get(wires.url("limited"), timeout=5).status_code == 429
        assert wires.counts["limited"] - before == 3
        assert all(slept >= 7 for slept in time.slept)


def test_f01_errors_that_were_made_by_hand():
    """An error without a chain is judged by its arguments and its text."""
    assert classify(requests.ConnectionError("Connection refused by a mock")).code == "CONN_REFUSED"
    assert classify(requests.ConnectionError()).code == "CONN_UNREACHABLE"
    assert classify(requests.HTTPError("no response")).retryable is False
    assert (
        classify(requests.exceptions.SSLError(ssl.SSLError(1, "x"))).code
        == "CONN_TLS_HANDSHAKE_FAILED"
    )
