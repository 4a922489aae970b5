"""Certificates and handshakes that really happen: in memory, between two `ssl` objects."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable
from importlib.util import find_spec

import pytest
import trustme


# litellm pins openai<3 and cannot be installed beside the openai of today. Its file runs where it is:
# `python -m venv v && v/bin/pip install -e '.[test]' litellm && v/bin/python -m pytest tests/failure/test_litellm.py`
# (pip then takes openai 2 for both). Not collected is not skipped: nothing may be skipped where every server is there.
collect_ignore = [] if find_spec("litellm") else ["test_litellm.py"]


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """A certificate authority that only this test run trusts."""
    return trustme.CA()


@pytest.fixture
def client_context(authority: trustme.CA) -> ssl.SSLContext:
    """A client that trusts the authority and nobody else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(context)
    return context


def server_context(certificate: trustme.LeafCert) -> ssl.SSLContext:
    """A server that shows this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


@pytest.fixture
def handshake() -> Callable[[ssl.SSLContext, ssl.SSLContext], ssl.SSLError]:
    """Run a handshake in memory and return the client's error."""

    def run(client: ssl.SSLContext, server: ssl.SSLContext) -> ssl.SSLError:
        up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
        near = client.wrap_bio(down, up, server_hostname="bridge.test")
        far = server.wrap_bio(up, down, server_side=True)
        for _ in range(10):
            try:
                near.do_handshake()
                near.read(
                    1
                )  # TLS 1.3: the server's refusal of our certificate arrives with the first read
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError as error:
                return error
            with contextlib.suppress(ssl.SSLError):
                far.do_handshake()
        raise AssertionError("the handshake succeeded")

    return run
