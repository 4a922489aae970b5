"""Jupyter Server with one IPython kernel, always the same kernel id.

The kernel knows `do(number)`, which writes the number to the ledger; and a thread of it prints the numbers that are published,
as a cell that runs for long would, without a client that the server would count.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import httpx
import websockets

from tests.bridges.servers.install import program
from tests.bridges.servers.process import ServerProcess, started
from tests.peers.ports import HOST, Port


TOKEN = "t"
SETUP = """
import http.server, threading

def do(number):
    with open({ledger!r}, "a") as file:
        file.write(f"{{number}}\\n")
    return number

class Printer(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        print(int(self.path[1:]), flush=True)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *parts):
        pass

printer = http.server.HTTPServer(("127.0.0.1", {port}), Printer)
threading.Thread(target=printer.serve_forever, daemon=True).start()
"""


def execute_request(code: str, *, session: str, ident: str | None = None) -> dict:
    """A message that runs code in the kernel; its `parent_header.msg_id` is in every answer to it."""
    header = {"msg_id": ident or uuid4().hex, "msg_type": "execute_request", "session": session}
    content = {"code": code, "silent": False, "store_history": False, "allow_stdin": False}
    return {
        "header": header | {"username": "", "date": "", "version": "5.3"},
        "parent_header": {},
        "metadata": {},
        "channel": "shell",
        "content": content | {"user_expressions": {}, "stop_on_error": True},
    }


class JupyterServer(ServerProcess):
    """`url` has the session id of a client: `address(session)` makes another one."""

    name = "jupyter"

    def __init__(self, folder: Path) -> None:
        """Choose the kernel's id."""
        super().__init__(folder)
        self.kernel = str(uuid4())
        self.token = TOKEN
        self._printer = Port()
        self._ledger = folder / "ledger.txt"

    @property
    def url(self) -> str:
        """The address of the kernel's channels for one session id, which is always the same."""
        return self.address("client")

    def address(self, session: str) -> str:
        """The address of the kernel's channels for this session id."""
        path = f"/api/kernels/{self.kernel}/channels"
        return f"ws://{HOST}:{self.port}{path}?session_id={session}&token={self.token}"

    def command(self) -> list[str]:
        """Jupyter's own command."""
        return [
            *(program(self.name, "jupyter-server"), "--no-browser", "--allow-root"),
            *(
                f"--ServerApp.ip={HOST}",
                f"--ServerApp.port={self.port}",
                "--ServerApp.port_retries=0",
            ),
            *(f"--ServerApp.root_dir={self.folder}", f"--IdentityProvider.token={self.token}"),
            "--ServerApp.log_level=DEBUG",  # says what it buffers
        ]

    def environment(self) -> dict[str, str]:
        """All its files in the server's folder."""
        names = "JUPYTER_CONFIG_DIR JUPYTER_DATA_DIR JUPYTER_RUNTIME_DIR IPYTHONDIR".split()
        return {name: str(self.folder / name.lower()) for name in names}

    async def answers(self) -> bool:
        """Whether its REST side does."""
        return (await self._api("GET", "/api")).is_success

    async def start(self, *, kernel: bool = True) -> None:
        """Start it, and a kernel of the same id; without one `url` is answered 404, as after any restart of Jupyter."""
        await super().start()
        if kernel:
            await self.start_kernel()

    async def start_kernel(self) -> None:
        """Start the kernel and wait until it can publish."""
        body = {"name": "python3", "kernel_id": self.kernel}
        (await self._api("POST", "/api/kernels", json=body)).raise_for_status()
        code = SETUP.format(ledger=str(self._ledger), port=self._printer.number)
        request = execute_request(code, session="setup")
        async with (
            asyncio.timeout(60),
            websockets.connect(self.address("setup"), proxy=None) as socket,
        ):
            await socket.send(json.dumps(request))
            while (answer := json.loads(await socket.recv()))["channel"] != "shell" or (
                answer["parent_header"].get("msg_id") != request["header"]["msg_id"]
            ):
                pass
        assert answer["content"]["status"] == "ok", answer["content"]

    async def stop_kernel(self) -> None:
        """Shut the kernel down; the server goes on."""
        (await self._api("DELETE", f"/api/kernels/{self.kernel}")).raise_for_status()

    async def connections(self) -> int:
        """How many sockets the server believes to be connected to the kernel."""
        return (await self._api("GET", f"/api/kernels/{self.kernel}")).json()["connections"]

    async def buffered(self) -> int:
        """How many messages it ever put into a buffer; what was published may still be on its way there."""
        return self.log.read_text(errors="replace").count("Buffering msg on")

    async def publish(self, number: int) -> None:
        """Make the kernel print the number: a `stream` message on iopub.

        Jupyter itself loses one that is printed while a client connects to an idle kernel, also to a session that it buffered.
        """
        async with httpx.AsyncClient(trust_env=False, verify=False, timeout=30) as client:
            (await client.post(f"http://{HOST}:{self._printer.number}/{number}")).raise_for_status()

    async def ledger(self) -> list[int]:
        """The number of each `do(number)` that a kernel ran."""
        return (
            [int(line) for line in self._ledger.read_text().split()]
            if self._ledger.exists()
            else []
        )

    async def close(self) -> None:
        """Kill it, kernel included."""
        await super().close()
        self._printer.close()

    async def _api(self, method: str, path: str, **options) -> httpx.Response:
        return await self.http(
            method, path, headers={"Authorization": f"token {self.token}"}, **options
        )


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[JupyterServer]:
    """A server with a kernel that answers."""
    async with started(JupyterServer, folder) as server:
        yield server
