"""An MCP client that speaks JSON-RPC messages and knows nothing of their meaning: over a command's pipes, or over streamable HTTP.

    with connect(command_or_url) as client:
        answer = client.request("tools/list", {})

Rule: nothing is validated, repaired or repeated; `texts` has what arrived, byte for byte, and every wait has a bound.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit


PATIENCE = 20.0

Message = dict[str, Any]


class Client:
    """What both wires share: requests under way, what arrived, and answers to the server's own requests.

    `notifications` and `requests` are the server's, in their order. `answers` maps a method to a function of the params that
    returns the result (or raises: the error is `error.args[0]`); what is not there is answered with -32601.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.notifications: list[Message] = []
        self.requests: list[Message] = []
        self.strays: list[Message] = []  # answers to nothing that was asked
        self.answers: dict[str, Callable[[Any], Any]] = {"ping": lambda _: {}}
        self._waiting: dict[tuple[type, Any], Future[Message]] = {}
        self._numbers = count(1)
        self._changed = threading.Condition()

    def write(self, message: Message) -> None:
        """Send it."""
        raise NotImplementedError

    def close(self) -> None:
        """End the connection and what belongs to it."""
        raise NotImplementedError

    def begin(
        self, method: str, params: Any = None, number: Any = None, **fields: Any
    ) -> Future[Message]:
        """Send a request; the answer, whole, when it comes."""
        number = next(self._numbers) if number is None else number
        future: Future[Message] = Future()
        self._waiting[type(number), number] = future
        message: Message = {"jsonrpc": "2.0", "id": number, "method": method, **fields}
        if params is not None:
            message["params"] = params
        self.write(message)
        return future

    def request(
        self, method: str, params: Any = None, number: Any = None, *, seconds: float = PATIENCE
    ) -> Message:
        """Send a request and wait for its answer, whole; TimeoutError if there is none."""
        return self.begin(method, params, number).result(seconds)

    def call(self, name: str, arguments: Any = None, **params: Any) -> Message:
        """Call a tool; the answer, whole. `params` is what else stands beside name and arguments."""
        return self.request("tools/call", {"name": name, "arguments": arguments or {}, **params})

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notification."""
        self.write(
            {"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})}
        )

    def initialize(
        self,
        capabilities: Mapping[str, Any] | None = None,
        version: str = "2025-11-25",
        **params: Any,
    ) -> Message:
        """Open the session; the server's answer, whole."""
        opened = {"protocolVersion": version, "capabilities": dict(capabilities or {}), **params}
        answer = self.request(
            "initialize", {"clientInfo": {"name": "raw", "version": "0"}, **opened}
        )
        self.notify("notifications/initialized")
        return answer

    def wait_for(self, condition: Callable[[], bool], seconds: float = PATIENCE) -> bool:
        """Wait until the condition holds, asked again whenever a message arrived; False if it never did."""
        with self._changed:
            return self._changed.wait_for(condition, seconds)

    def notified(self, method: str) -> list[Any]:
        """The params of the notifications of that method."""
        return [
            message.get("params") for message in self.notifications if message["method"] == method
        ]

    def take(self, text: str) -> None:
        """A message arrived."""
        message = json.loads(text)
        if "method" in message and "id" in message:
            threading.Thread(target=self._answer, args=(message,), daemon=True).start()
        with self._changed:
            self.texts.append(text)
            if "method" in message:
                (self.requests if "id" in message else self.notifications).append(message)
            else:
                future = self._waiting.pop((type(message["id"]), message["id"]), None)
                self.strays.append(message) if future is None else future.set_result(message)
            self._changed.notify_all()

    def fail(self, error: Exception, number: Any = None) -> None:
        """The connection ended under this request, or under all of them."""
        keys = list(self._waiting) if number is None else [(type(number), number)]
        for key in keys:
            if (future := self._waiting.pop(key, None)) is not None:
                future.set_exception(error)

    def _answer(self, message: Message) -> None:
        answer: Message = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            answer["result"] = self.answers[message["method"]](message.get("params"))
        except KeyError:
            answer["error"] = {"code": -32601, "message": "not found"}
        except Exception as error:  # noqa: BLE001 -- the error that the test wants
            answer["error"] = error.args[0]
        self.write(answer)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Pipes(Client):
    """A command's standard input and output; `errors` is what it wrote to standard error."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        super().__init__()
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment
        )
        self.errors = b""
        self.noise: list[bytes] = []  # lines of its output that are no JSON objects
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=work, daemon=True) for work in (self._read, self._drain)
        ]
        for thread in self._threads:
            thread.start()

    def write(self, message: Message) -> None:
        self.write_bytes(json.dumps(message, ensure_ascii=False).encode() + b"\n")

    def write_bytes(self, data: bytes) -> None:
        """Send these bytes, whatever they are."""
        assert self.process.stdin is not None
        with self._lock:
            self.process.stdin.write(data)
            self.process.stdin.flush()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                is_object = isinstance(json.loads(line), dict)
            except ValueError:
                is_object = False
            self.take(line.decode().rstrip("\r\n")) if is_object else self.noise.append(line)
        self.fail(ConnectionError("the command's output ended"))

    def _drain(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.errors = (self.errors + line)[-100_000:]

    def close(self) -> None:
        """Close its input, and wait until it ended; killed after 10 s, which is an AssertionError."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("it did not end within 10 s of the end of its input") from None
        finally:
            for thread in self._threads:
                thread.join(5)
            self.process.stdout.close()
            self.process.stderr.close()


class Http(Client):
    """Streamable HTTP, legacy: a connection per message, and one stream for what belongs to no request."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._url = urlsplit(url)
        self.headers = {"Accept": "application/json, text/event-stream", **(headers or {})}
        self.has_stream = False
        self._open: set[http.client.HTTPConnection] = set()
        self._is_closed = False

    def write(self, message: Message) -> None:
        if "method" in message and "id" in message:
            threading.Thread(target=self._post_request, args=(message,), daemon=True).start()
        else:
            self._post(message)
            if message.get("method") == "notifications/initialized":
                threading.Thread(target=self._listen, daemon=True).start()
                self._until_listening()

    def close(self) -> None:
        """End the session, and every connection."""
        self._is_closed = True
        if "Mcp-Session-Id" in self.headers:
            connection = self._connection()
            connection.request("DELETE", self._url.path, headers=self.headers)
            connection.getresponse().read()
            connection.close()
        for connection in tuple(self._open):
            # another thread may close it in the meantime
            with suppress(OSError, AttributeError):
                connection.sock.shutdown(2)

    def _connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(str(self._url.hostname), self._url.port, timeout=60)

    def _post_request(self, message: Message) -> None:
        try:
            self._post(message)
            self.fail(ConnectionError("the answer ended without the answer"), message["id"])
        except http.client.HTTPException as error:
            self.fail(ConnectionError(f"the answer was cut: {error!r}"), message["id"])
        except (OSError, ValueError) as error:
            self.fail(error, message["id"])

    def _post(self, message: Message) -> None:
        body = json.dumps(message, ensure_ascii=False).encode()
        connection = self._connection()
        self._open.add(connection)
        try:
            headers = {**self.headers, "Content-Type": "application/json"}
            connection.request("POST", self._url.path, body, headers)
            self._receive(connection.getresponse())
        finally:
            self._open.discard(connection)
            connection.close()

    def _receive(self, response: http.client.HTTPResponse) -> None:
        if response.status >= 400:
            raise ConnectionError(f"HTTP {response.status}: {response.read(300)!r}")
        if (session := response.headers.get("Mcp-Session-Id")) is not None:
            self.headers["Mcp-Session-Id"] = session
        if response.headers.get("Content-Type", "").startswith("text/event-stream"):
            self._read_events(response)
        elif body := response.read().decode():
            self._take_opened(body)

    def _read_events(self, response: http.client.HTTPResponse) -> None:
        data: list[str] = []
        event = ""
        for line in response:
            text = line.decode().rstrip("\r\n")
            if text.startswith("data:"):
                data.append(text.removeprefix("data:").removeprefix(" "))
            elif text.startswith("event:"):
                event = text.removeprefix("event:").strip()
            elif not text:
                if data and event in {"", "message"}:
                    self._take_opened("\n".join(data))
                data, event = [], ""

    def _take_opened(self, text: str) -> None:
        if not text:  # an event that only has an id
            return
        message = json.loads(text)
        if "MCP-Protocol-Version" not in self.headers and "protocolVersion" in (
            message.get("result") or {}
        ):
            self.headers["MCP-Protocol-Version"] = message["result"]["protocolVersion"]
        self.take(text)

    def _until_listening(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self.has_stream and time.monotonic() < deadline:
            time.sleep(0.005)

    def _listen(self) -> None:
        """The stream of what belongs to no request, until the client is closed; 405 means that there is none."""
        connection = self._connection()
        self._open.add(connection)
        try:
            connection.request(
                "GET", self._url.path, headers={**self.headers, "Accept": "text/event-stream"}
            )
            response = connection.getresponse()
            self.has_stream = True
            if response.status == 200:
                self._read_events(response)
        except (OSError, http.client.HTTPException, ValueError):
            if not self._is_closed:
                raise
        finally:
            self._open.discard(connection)
            connection.close()


def connect(target: Sequence[str] | str, headers: Mapping[str, str] | None = None) -> Client:
    """A client of a URL, or of a command; `headers` for the first."""
    return Http(target, headers) if isinstance(target, str) else Pipes(target)
