"""Certificates of every kind a client must refuse, and what they look like from outside. Rule: made afresh, in memory or tmp."""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import ssl

import trustme


PAST = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
KINDS = ("expired", "wrong-host", "self-signed", "stranger")

AUTHORITY = trustme.CA()


def trusting():
    """A client's context that trusts our authority and nothing else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    AUTHORITY.configure_trust(context)
    return context


def serving(kind):
    """A server's context: good, expired, wrong-host, self-signed (the authority's own certificate), stranger."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    match kind:
        case "expired":
            leaf = AUTHORITY.issue_cert(
                "localhost", not_after=PAST, not_before=PAST - dt.timedelta(days=9)
            )
        case "wrong-host":
            leaf = AUTHORITY.issue_cert("elsewhere.example")
        case "stranger":
            leaf = trustme.CA().issue_cert("localhost")
        case "self-signed":
            other = trustme.CA()
            with other.cert_pem.tempfile() as chain, other.private_key_pem.tempfile() as key:
                context.load_cert_chain(chain, key)
            return context
        case _:
            leaf = AUTHORITY.issue_cert("localhost")
    leaf.configure_cert(context)
    return context


async def pin_of(port):
    """The pin of the certificate that a port on loopback shows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    await asyncio.sleep(0)
    return f"sha256:{hashlib.sha256(shown).hexdigest()}"
