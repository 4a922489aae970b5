"""What tests use of `resilient_bridge.transports` below its door."""

from __future__ import annotations

from tests.internals import lazily


__getattr__ = lazily(
    "resilient_bridge.transports",
    {
        "": "tls websocket",
        "arrivals": "Arrivals",
        "loopback": "is_loopback",
        "origin": (
            "InsecureURLError RedirectRefusedError checked_headers parse_url redirect_within "
            "refuse_credentials"
        ),
        "references": "Headers Secret UnreadableError in_words is_reference only_names_secret read_secret",
        "racing": "first_connected interleaved",
        "websocket": "WebSocketTransport open_websocket websocket_RedirectRefusedError=RedirectRefusedError",
    },
)
