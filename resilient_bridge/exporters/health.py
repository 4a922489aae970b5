"""The health of this process over HTTP, an ASGI application: links, circuits, limits, budgets and stores.

No dependency.

Rule: 200 while every client and link is READY, 503 while one starts, is disconnected, has failed or
stops. An open circuit is shown and does not change the status: another service is at fault. It
registers no listener: the state is read on each request.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final, TypeAlias, cast

from .. import __version__
from ..calls import adaptive_limits
from ..calls.ports import BUDGETS
from ..failure import redact
from ..telemetry.alerts import standing_alerts
from ..telemetry.events import BridgeState
from ..telemetry.hub import open_links
from ..world import current_world
from .exporter import known_circuits


_Scope: TypeAlias = MutableMapping[str, Any]
_Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_MOST: Final = 1_000  # of each kind
_STARTING: Final = frozenset(
    {
        BridgeState.IDLE,
        BridgeState.CONNECTING,
        BridgeState.AUTHENTICATING,
        BridgeState.JOINING,
        BridgeState.REPLAYING,
        BridgeState.FLUSHING,
    }
)
_STOPPING: Final = frozenset({BridgeState.DRAINING, BridgeState.CLOSING})
_ORDER: Final = ("down", "stopping", "starting", "ready")
_SPENDING: Final = "resilient_bridge.agent.spending.spend_budget"


def health_app() -> HealthApp:
    """Return an ASGI application that reports the health of this process, to a load balancer.

        app = rb.telemetry.health_app()      # uvicorn main:app

    Serve it, or mount it. GET and HEAD of any path answer 200 with `"status": "ready"`, or 503 with
    `starting`, `stopping` (also after `app.is_stopping = True`, for a process that is about to end)
    or `down`. The JSON body lists links with their names, the durable stores of clients, circuits,
    adaptive limits, budgets and alerts. Keys are masked as in a log, and there are no session ids and no payloads. A
    process without links is ready.
    """
    return HealthApp()


class HealthApp:
    """The application of `health_app`. Set `is_stopping` when the process begins to end."""

    def __init__(self) -> None:
        self.is_stopping = False

    def status(self) -> dict[str, Any]:
        """Return the answer as plain data."""
        links = [_link(name, link) for name, link in open_links()]
        stores = [store for one in links if (store := _store(one))]
        stands = [one.pop("stands") for one in links]
        if self.is_stopping:
            stands.append("stopping")
        now = current_world().monotonic()
        return {
            "status": min(stands, key=_ORDER.index, default="ready"),
            "version": __version__,
            "links": links[:_MOST],
            "stores": stores[:_MOST],
            "circuits": [
                {"key": redact(key, limit=100), "state": state}
                for key, state in known_circuits(_MOST)
            ],
            "adaptive_limits": [
                {
                    "key": redact(name, limit=200),
                    "state": one.state,
                    "at_once": round(one.at_once, 1),
                    "running": one.running,
                    "waiting": one.waiting,
                    "refused": one.refused,
                    "throttled": one.throttled,
                }
                for name, one in list(adaptive_limits().items())[:_MOST]
            ],
            "retry_budgets": [
                {"key": redact(one.key, limit=100), "remaining": round(one.remaining(now), 3)}
                for one in BUDGETS.named()[:_MOST]
            ],
            "spend_budgets": _spend_budgets(),
            "alerts": [{"rule": rule, "level": level} for rule, level in standing_alerts()],
        }

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """Answer one request, or follow the server's lifespan."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, send)
        else:  # a WebSocket: refused before it is accepted
            await send({"type": "websocket.close", "code": 1008})

    async def _answer(self, scope: _Scope, send: _Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            await _send(
                send, 405, {"error": "GET or HEAD wanted"}, {"allow": "GET, HEAD"}, with_body=True
            )
            return
        status = self.status()
        code = 200 if status["status"] == "ready" else 503
        await _send(
            send, code, status, {"cache-control": "no-store"}, with_body=scope["method"] == "GET"
        )

    async def _live(self, receive: _Receive, send: _Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                self.is_stopping = True
                await send({"type": "lifespan.shutdown.complete"})
                return


def _link(name: str, link: Any) -> dict[str, Any]:
    health, kind = link.health(), cast("type[object]", type(link))
    shown: dict[str, Any] = {
        "name": redact(name),
        "kind": getattr(kind, "shown_as", kind.__name__),
        "state": health.state.value,
        "stands": _stands(health.state),
        "reason": redact(health.reason, limit=100),
    }
    if health.failure is not None and not health.ready:
        shown["failure"] = {"code": health.failure.code, "message": redact(health.failure.message)}
    for field in ("queued", "unconfirmed", "unread", "in_flight", "store_failed", "store"):
        if hasattr(health, field):
            shown[field] = getattr(health, field)
    return shown


def _store(link: dict[str, Any]) -> dict[str, Any] | None:
    """Remove the store from a client's row, and return a row of its own; None without a store."""
    store = link.pop("store", "")
    if not store:
        return None
    return {
        "store": redact(store, limit=100),
        "link": link["name"],
        "state": "failed" if link["store_failed"] else "open",
        "queued": link["queued"],
        "unconfirmed": link["unconfirmed"],
    }


def _stands(state: BridgeState) -> str:
    if state is BridgeState.READY:
        return "ready"
    if state in _STARTING:
        return "starting"
    return "stopping" if state in _STOPPING else "down"


def _spend_budgets() -> list[dict[str, Any]]:
    """Return the budgets of this process, if the module that makes them is loaded."""
    module: Any = sys.modules.get(_SPENDING)
    if module is None:
        return []
    shown: list[dict[str, Any]] = []
    for book in module.books()[:_MOST]:
        status = book.status()
        shown.append(
            {
                "name": redact(book.name, limit=100),
                "state": status.state.name if book.is_open else "not read yet",
                "spent": str(status.spent),
                "limit": str(status.limit),
            }
        )
    return shown


async def _send(
    send: _Send, code: int, body: Mapping[str, Any], headers: Mapping[str, str], *, with_body: bool
) -> None:
    data = json.dumps(body, separators=(",", ":")).encode()
    pairs = {"content-type": "application/json", "content-length": str(len(data)), **headers}
    await send(
        {
            "type": "http.response.start",
            "status": code,
            "headers": [(name.encode(), text.encode()) for name, text in pairs.items()],
        }
    )
    await send({"type": "http.response.body", "body": data if with_body else b""})
