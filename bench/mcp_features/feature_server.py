"""An MCP server that has everything the legacy protocol knows, and some things it does not: what a proxy must pass on unchanged.

    python bench/mcp_features/feature_server.py                over standard input and output
    python bench/mcp_features/feature_server.py --http 0       streamable HTTP; the first line of output is the URL

Rule: standard library only, and no line of this package or of an SDK. Over HTTP it ends when its standard input does.
`feature_rows.py` knows what is right.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from itertools import count
from pathlib import Path
from typing import Any


if __name__ == "__main__":  # run by its path, from anywhere
    sys.path[0] = str(Path(__file__).parents[1])

from mcp_features.feature_data import (
    ASKED,
    CAPABILITIES,
    CONTENTS,
    ERROR,
    INSTRUCTIONS,
    LARGE,
    NUMBERS,
    PAGE,
    PROMPTS,
    RESOURCES,
    SERVER_INFO,
    TEMPLATES,
    TOOLS,
    VERSIONS,
)


class CancelledError(Exception):
    """The caller does not want the answer any more."""


class RpcError(Exception):
    """A JSON-RPC error."""


class Request:
    """One request under way: where what belongs to it is sent, and whether it was cancelled."""

    def __init__(self, session: Session, message: dict[str, Any], send: Any) -> None:
        self.session, self.message, self.send = session, message, send
        self.params = message.get("params", {})
        self.cancelled = threading.Event()

    def notify(self, method: str, params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method: str, params: Any) -> Any:
        """The client's answer, whole."""
        return self.session.ask(method, params, self.send)


class Session:
    """One client: `receive` takes its messages, `push` sends what belongs to no request."""

    def __init__(self, push: Any) -> None:
        self.push = push
        self.seen: list[Any] = []  # notifications of the client
        self.cancelled: list[str] = []
        self.opened: dict[str, Any] = {}
        self.level = ""
        self.subscribed: list[str] = []
        self.tasks: dict[str, dict[str, Any]] = {}
        self._running: dict[tuple[type, Any], Request] = {}
        self._waiting: dict[str, tuple[threading.Event, list[Any]]] = {}
        self._numbers = count(1)
        self._lock = threading.Lock()

    def receive(self, message: dict[str, Any], send: Any) -> None:
        """Work on it in this thread; an answer and what belongs to the request go to `send`."""
        if "method" not in message:
            event, answers = self._waiting.pop(str(message.get("id")), (None, []))
            answers.append(message)
            if event is not None:
                event.set()
        elif "id" not in message:
            self._heed(message)
        else:
            self._work(message, send)

    def ask(self, method: str, params: Any, send: Any) -> Any:
        """Send a request; the client's answer, whole."""
        with self._lock:
            number = f"s-{next(self._numbers)}"
        event, answers = threading.Event(), []
        self._waiting[number] = (event, answers)
        send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return answers[0] if event.wait(20) else {"error": "no answer"}

    def _heed(self, message: dict[str, Any]) -> None:
        self.seen.append({key: message[key] for key in message if key != "jsonrpc"})
        if message["method"] == "notifications/cancelled":
            number = message["params"]["requestId"]
            request = self._running.get((type(number), number))
            if request is not None:
                request.cancelled.set()
        if message["method"] == "example.com/poke":
            self.push(
                {"jsonrpc": "2.0", "method": "example.com/poked", "params": message.get("params")}
            )

    def _work(self, message: dict[str, Any], send: Any) -> None:
        key = (type(message["id"]), message["id"])
        request = self._running[key] = Request(self, message, send)
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            answer["result"] = METHODS[message["method"]](request)
        except CancelledError:
            self.cancelled.append(request.params["arguments"]["marker"])
            send(None)
            return
        except RpcError as error:
            answer["error"] = error.args[0]
        except KeyError as error:
            answer["error"] = {"code": -32601, "message": f"not found: {error}"}
        finally:
            self._running.pop(key, None)
        send(answer)


# ---- methods: a request in, a result out -----------------------------------------------------------------------------
def _initialize(request: Request) -> Any:
    wanted = request.params.get("protocolVersion")
    request.session.opened = request.params
    return {
        "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[-1],
        "capabilities": CAPABILITIES,
        "serverInfo": SERVER_INFO,
        "instructions": INSTRUCTIONS,
        "_meta": {"example.com/hello": "ü"},
        "x-unknown": [1],
    }


def _tools(request: Request) -> Any:
    begin = int(request.params.get("cursor", "page-0").removeprefix("page-"))
    page: dict[str, Any] = {"tools": TOOLS[begin : begin + PAGE], "x-page": begin}
    if begin + PAGE < len(TOOLS):
        page["nextCursor"] = f"page-{begin + PAGE}"
    return page


def _level(request: Request) -> Any:
    request.session.level = request.params["level"]
    return {}


def _subscribe(request: Request) -> Any:
    request.session.subscribed.append(request.params["uri"])
    return {}


def _unsubscribe(request: Request) -> Any:
    request.session.subscribed.remove(request.params["uri"])
    return {}


def _complete(request: Request) -> Any:
    return {
        "completion": {
            "values": [request.params["argument"]["value"] + "!"],
            "total": 1,
            "hasMore": False,
        },
        "x-context": request.params.get("context"),
    }


def _prompt(request: Request) -> Any:
    text = {"type": "text", "text": json.dumps(request.params)}
    return {"description": "ü", "messages": [{"role": "user", "content": text}], "x-prompt": True}


def _read(request: Request) -> Any:
    uri = request.params["uri"]
    return {
        "contents": [
            {"uri": uri, "blob": "AAEC", "mimeType": "x/y", "x-c": 1},
            {"uri": uri, "text": "t"},
        ]
    }


def _seen(request: Request) -> Any:
    session = request.session
    return {
        "notifications": session.seen,
        "cancelled": session.cancelled,
        "opened": session.opened,
        "level": session.level,
        "subscribed": session.subscribed,
    }


def _task(request: Request) -> dict[str, Any]:
    number = request.params.get("taskId")
    if number not in request.session.tasks:
        raise RpcError({"code": -32602, "message": "unknown task", "data": {"taskId": number}})
    return request.session.tasks[number]


def _task_result(request: Request) -> Any:
    task = _task(request)
    return {
        "content": [],
        "_meta": {"io.modelcontextprotocol/related-task": {"taskId": task["taskId"]}},
    }


def _task_cancel(request: Request) -> Any:
    task = _task(request)
    task["status"] = "cancelled"
    return task


def _call(request: Request) -> Any:
    return TOOL[request.params["name"]](request)


METHODS: dict[str, Any] = {
    "initialize": _initialize,
    "ping": lambda _: {},
    "tools/list": _tools,
    "tools/call": _call,
    "prompts/list": lambda _: {"prompts": PROMPTS, "x-list": 1},
    "prompts/get": _prompt,
    "resources/list": lambda _: {"resources": RESOURCES, "x-list": 2},
    "resources/templates/list": lambda _: {"resourceTemplates": TEMPLATES, "x-list": 3},
    "resources/read": _read,
    "resources/subscribe": _subscribe,
    "resources/unsubscribe": _unsubscribe,
    "completion/complete": _complete,
    "logging/setLevel": _level,
    "tasks/get": _task,
    "tasks/list": lambda request: {"tasks": list(request.session.tasks.values()), "x-list": 4},
    "tasks/result": _task_result,
    "tasks/cancel": _task_cancel,
    "example.com/echo": lambda request: {"params": request.params},
    "example.com/seen": _seen,
}


# ---- tools: a call in, a result out ----------------------------------------------------------------------------------
def _text(value: Any) -> Any:
    return {"content": [{"type": "text", "text": json.dumps(value)}]}


def _echo(request: Request) -> Any:
    """Everything of the request but the token, which belongs to each hop."""
    meta = {
        key: value
        for key, value in request.params.get("_meta", {}).items()
        if key != "progressToken"
    }
    return {**_text("echo"), "structuredContent": {**request.params, "_meta": meta}}


def _progress(request: Request) -> Any:
    token = request.params["_meta"]["progressToken"]
    for step in (0.5, 1, 2):
        request.notify(
            "notifications/progress",
            {
                "progressToken": token,
                "progress": step,
                "total": 2,
                "message": f"ü{step}",
                "x-unknown": {"a": 1},
            },
        )
    return _text("done")


def _changes(request: Request) -> Any:
    for kind in ("tools", "prompts", "resources"):
        params = {"_meta": {"example.com/because": kind}}
        request.session.push(
            {"jsonrpc": "2.0", "method": f"notifications/{kind}/list_changed", "params": params}
        )
    for uri in request.session.subscribed:
        params = {"uri": uri, "x-unknown": 1}
        request.session.push(
            {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params}
        )
    return _text("done")


def _logs(request: Request) -> Any:
    params = {
        "level": "warning",
        "logger": "feature",
        "data": {"deep": [1, "ü"]},
        "x-unknown": None,
    }
    request.notify("notifications/message", params)
    request.notify("notifications/elicitation/complete", {"elicitationId": "e-1"})
    return _text("done")


def _asks(request: Request) -> Any:
    """Ask the client all that it declared, and whether it is there."""
    answers = {
        method: {
            key: value
            for key, value in request.ask(method, params).items()
            if key in {"result", "error"}
        }
        for method, params in {**ASKED, "ping": {}}.items()
    }
    return {**_text("asked"), "structuredContent": answers}


def _fails(_: Request) -> Any:
    raise RpcError(ERROR)


def _wait(request: Request) -> Any:
    request.notify("example.com/waiting", {})
    if request.cancelled.wait(20):
        raise CancelledError
    return _text("not cancelled")


def _spawn(request: Request) -> Any:
    """A task, if the caller asks for one."""
    wanted = request.params.get("task")
    number = f"task-{len(request.session.tasks) + 1}"
    task = {
        "taskId": number,
        "status": "working",
        "ttl": wanted["ttl"],
        "pollInterval": 5,
        "x-unknown": "ü",
    }
    request.session.tasks[number] = task
    request.notify(
        "notifications/tasks/status", {**task, "status": "working", "statusMessage": "begun"}
    )
    return {"task": task}


TOOL: dict[str, Any] = {
    "echo": _echo,
    "probe": _echo,
    "progress": _progress,
    "changes": _changes,
    "logs": _logs,
    "asks": _asks,
    "fails": _fails,
    "wait": _wait,
    "numbers": lambda _: Raw(NUMBERS),
    "large": lambda _: {"content": [{"type": "text", "text": "x" * LARGE}]},
    "contents": lambda _: CONTENTS,
    "spawn": _spawn,
}


# ---- standard input and output ---------------------------------------------------------------------------------------
class Raw(dict[str, Any]):
    """A result that is written as this text: a number keeps its digits."""

    def __init__(self, text: str) -> None:
        super().__init__({"raw": text})


def written(message: dict[str, Any]) -> str:
    """The message as one line of JSON."""
    result = message.get("result")
    if isinstance(result, Raw):
        return f'{{"jsonrpc":"2.0","id":{json.dumps(message["id"])},"result":{result["raw"]}}}'
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"))


def over_stdio() -> None:
    """One client, each of its messages in a thread of its own; ends with standard input."""
    lock = threading.Lock()

    def send(message: dict[str, Any] | None) -> None:
        if message is None:
            return
        with lock:
            sys.stdout.buffer.write(written(message).encode() + b"\n")
            sys.stdout.buffer.flush()

    session = Session(send)
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" in message and "method" in message:
            threading.Thread(target=session.receive, args=(message, send), daemon=True).start()
        else:
            session.receive(message, send)  # notifications and answers in their order


def main() -> None:
    """Serve as the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--http", type=int, metavar="PORT")
    port = parser.parse_args().http
    if port is None:
        over_stdio()
        return
    from mcp_features.feature_http import serve

    serve(port, Session, written)


if __name__ == "__main__":
    main()
