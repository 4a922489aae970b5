"""`wrap` around an HTTP client: those of httpx and httpx2 (test_http_proxies.py), and what the error for the others names."""

from __future__ import annotations

import copy
import pickle
import re

import aiohttp
import httpx
import httpx2
import pytest
import requests

import resilient_bridge as rb


class Shop(httpx.Client):
    """A client of somebody's own."""


ONE_REQUEST = rb.resilient.replace(rb.AdaptiveLimit())


@pytest.mark.parametrize(
    "client", [httpx.Client, httpx.AsyncClient, Shop, httpx2.Client, httpx2.AsyncClient]
)
def test_a_client_of_httpx_is_wrapped_and_copied(client):
    """C02, C09: it stays one of its class; a shallow copy has the policy too, as a bare client's copy has its transport."""
    made = rb.wrap(client(trust_env=False))
    for each in (made, copy.copy(made)):
        assert isinstance(each, client)
        assert (
            repr(each)
            == f"<wrapped {client.__module__.partition('.')[0]}.{client.__name__}, {ONE_REQUEST!r}>"
        )
        assert isinstance(each.__wrapped__._transport, rb.HTTPTransport)
    with pytest.raises(rb.ConfigError, match="made where it is used"):
        pickle.dumps(made)


def test_the_error_names_what_to_use_instead():
    """Or the methods to protect, which remains possible."""
    instead = "session.mount('https://', rb.HTTPAdapter())"
    wanted = f"wanted {instead} instead of wrap, or the methods of Session to protect, got None"
    with pytest.raises(rb.ConfigError, match=re.escape(f"wrap.methods: {wanted}")):
        rb.wrap(requests.Session())


async def test_the_error_for_a_session_of_aiohttp_names_the_middleware():
    """A session of aiohttp needs a running loop."""
    async with aiohttp.ClientSession() as session:
        with pytest.raises(
            rb.ConfigError, match=re.escape("middlewares=[rb.HTTPMiddleware()]) instead of")
        ):
            rb.wrap(session)


def test_its_methods_can_still_be_named():
    """Then it is an object like any other."""
    client = rb.wrap(httpx.Client(), methods=["send"])
    assert isinstance(client, httpx.Client)
