"""`wrap` around an HTTP client: the error names the transport, the adapter or the middleware that its requests go through."""

from __future__ import annotations

import re

import aiohttp
import httpx
import httpx2
import pytest
import requests

import resilient_bridge as rb


class Shop(httpx.Client):
    """A client of somebody's own."""


@pytest.mark.parametrize(
    ("client", "instead"),
    [
        (httpx.Client, "httpx.Client(transport=rb.HTTPTransport())"),
        (httpx.AsyncClient, "httpx.AsyncClient(transport=rb.HTTPTransport())"),
        (Shop, "httpx.Client(transport=rb.HTTPTransport())"),
        (httpx2.Client, "httpx2.Client(transport=rb.HTTPTransport())"),
        (httpx2.AsyncClient, "httpx2.AsyncClient(transport=rb.HTTPTransport())"),
        (requests.Session, "session.mount('https://', rb.HTTPAdapter())"),
    ],
)
def test_the_error_names_what_to_use_instead(client, instead):
    """Or the methods to protect, which remains possible."""
    wanted = f"wanted {instead} instead of wrap, or the methods of {client.__name__} to protect, got None"
    with pytest.raises(rb.ConfigError, match=re.escape(f"wrap.methods: {wanted}")):
        rb.wrap(client())


async def test_the_error_for_a_session_of_aiohttp_names_the_middleware():
    """A session of aiohttp needs a running loop."""
    async with aiohttp.ClientSession() as session:
        with pytest.raises(rb.ConfigError, match=re.escape("middlewares=[rb.HTTPMiddleware()]) instead of")):
            rb.wrap(session)


def test_its_methods_can_still_be_named():
    """Then it is an object like any other."""
    client = rb.wrap(httpx.Client(), methods=["send"])
    assert isinstance(client, httpx.Client)
