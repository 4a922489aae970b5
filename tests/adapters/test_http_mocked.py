"""Under the mocks that people test with: respx for httpx, pytest-httpx2 for httpx2. They replace what lies below ours."""

from __future__ import annotations

import httpx
import httpx2
import pytest
import respx

import resilient_bridge as rb
from tests.adapters.http_clients import QUICK


URL = "https://a.example/"


async def test_respx_sees_every_attempt():
    """Each attempt is a call of its own, sync and async; its side effects are errors like real ones."""
    with respx.mock as router:
        route = router.get(URL)
        route.side_effect = [
            httpx.ConnectError("no"),
            httpx.Response(503),
            httpx.Response(200, json={"ok": True}),
        ]
        async with httpx.AsyncClient(transport=rb.HTTPTransport(QUICK)) as client:
            assert (await client.get(URL)).json() == {"ok": True}
        assert route.call_count == 3
        route.side_effect = [httpx.ReadTimeout("late"), httpx.Response(200)]
        with httpx.Client(transport=rb.HTTPTransport(QUICK)) as client:
            assert client.get(URL).status_code == 200
        assert route.call_count == 5


async def test_respx_sees_one_post():
    """A POST that may have run is one call, and its error is the mock's own object."""
    with respx.mock as router:
        lost = httpx.ReadError("lost")
        route = router.post(URL).mock(side_effect=lost)
        async with httpx.AsyncClient(transport=rb.HTTPTransport(QUICK)) as client:
            with pytest.raises(httpx.ReadError) as caught:
                await client.post(URL, json={})
        assert (caught.value, route.call_count) == (lost, 1)


async def test_pytest_httpx2_sees_every_attempt(httpx2_mock):
    """The same for httpx2: two refusals and an answer are three requests, the key of a POST the same on all."""
    route = httpx2_mock.post(URL)
    answers = [httpx.Response(429), httpx.Response(429), httpx.Response(200, json={"ok": True})]
    route.side_effect = answers  # it wants httpx's class, and hands out httpx2's
    async with httpx2.AsyncClient(transport=rb.HTTPTransport(QUICK)) as client:
        assert (await client.post(URL)).json() == {"ok": True}
    keys = [call.request.headers["idempotency-key"] for call in route.calls]
    assert keys == [keys[0]] * 3


def test_pytest_httpx2_raises_as_scripted(httpx2_mock):
    """Its exceptions come out as they are, after the attempts are used up."""
    late = httpx2.ConnectTimeout("late")
    route = httpx2_mock.get(URL).mock(side_effect=late)
    with (
        httpx2.Client(transport=rb.HTTPTransport(QUICK)) as client,
        pytest.raises(httpx2.ConnectTimeout) as caught,
    ):
        client.get(URL)
    assert (caught.value, route.call_count) == (late, 4)
