"""The server of python_socketio.py, run by the Python of its environment: `python -P python_socketio_app.py PORT LEDGER OPTIONS`.

The same words as tests/node/socketio_server.mjs: `tick` with each number of POST /publish/NUMBER; what clients emit as `echo` or `do`
is written to the ledger, one line of JSON each, before it is acknowledged; /private refuses who has not {"token": "t"}.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import socketio
import uvicorn


port, ledger, options = int(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
sio = socketio.AsyncServer(async_mode="asgi", namespaces=["/", "/private"], **options)
present: set[str] = set()


def handle(namespace: str, event: str, answer) -> None:
    """Write down what comes as this event, and acknowledge it."""

    async def handler(sid, value):
        with ledger.open("a") as file:
            file.write(json.dumps({"event": event, "value": value}) + "\n")
        return answer(value)

    sio.on(event, handler, namespace=namespace)


for namespace in ("/", "/private"):
    handle(namespace, "echo", lambda value: f"got {value}")
    handle(namespace, "do", lambda value: {"done": value})


@sio.event
async def connect(sid, environ, auth):
    """Count it."""
    present.add(sid)


@sio.event
async def disconnect(sid, reason):
    """Count it no more."""
    present.discard(sid)


@sio.on("connect", namespace="/private")
async def private(sid, environ, auth):
    """Refuse who has not the token."""
    if (auth or {}).get("token") != "t":
        raise socketio.exceptions.ConnectionRefusedError("wrong token")


async def api(scope, receive, send):
    """`POST /publish/NUMBER`, or how many clients of the default namespace there are."""
    if scope["type"] != "http":
        return
    _, command, *number = scope["path"].split("/")
    if command == "publish":
        await sio.emit("tick", int(number[0]))
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": str(len(present)).encode()})


app = socketio.ASGIApp(sio, other_asgi_app=api)
uvicorn.run(
    app,
    host="127.0.0.1",
    port=port,
    access_log=False,
    timeout_graceful_shutdown=1,
    ws="websockets-sansio",
)
