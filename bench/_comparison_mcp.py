"""The row of `comparison.py` about MCP: calls of a tool while nginx answers 502, because the server behind it is being deployed."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from _mcp_relays import RELAYS, Relay, Upstream, end_tree, free_port, started, until_listening
from mcp_features.raw_client import Pipes


NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
NAMES = ("resilient-bridge", "mcp-proxy (PyPI)")
LONGEST = 20.0  # seconds for the last answer
_FOLDERS = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
_CONFIG = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log; {user}
events {{ worker_connections 256; }}
http {{
    access_log off; {folders}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://127.0.0.1:{upstream}; proxy_http_version 1.1; proxy_buffering off; proxy_set_header Connection "";
        }}
    }}
}}
"""


@contextmanager
def nginx(folder: Path, upstream: int):
    """Yield the URL of an nginx in front of a port."""
    port = free_port()
    text = _CONFIG.format(
        folder=folder,
        port=port,
        upstream=upstream,
        folders=" ".join(f"{name}_temp_path {folder}/{name};" for name in _FOLDERS),
        user="user root;" if os.geteuid() == 0 else "",
    )
    (folder / "nginx.conf").write_text(text)
    options = ["-c", f"{folder}/nginx.conf", "-p", str(folder), "-e", f"{folder}/error.log"]
    with started([str(NGINX), *options]):
        until_listening(port)
        yield f"http://127.0.0.1:{port}/mcp"


def lost_behind(relay: Relay, folder: Path, calls: int, outage: float) -> dict[str, int]:
    """Make ten calls a second, and return how many got no good answer, and how many of these an error; the server is away for `outage` seconds."""
    upstream = Upstream(folder, port=0)
    with nginx(folder, upstream.port) as url:
        client = Pipes(relay.command(url, None))
        try:
            client.initialize(version="2025-06-18")
            futures, timer = [], None
            for number in range(calls):
                if number == 5:
                    upstream.kill()
                    timer = threading.Timer(outage, upstream.start)
                    timer.start()
                with suppress(OSError):  # the relay has ended
                    futures.append(client.begin("tools/call", {"name": "order", "arguments": {}}))
                time.sleep(0.1)
            if timer is not None:
                timer.join()
            answers, end = [], time.monotonic() + LONGEST
            for future in futures:
                with suppress(TimeoutError, OSError):
                    answers.append(future.result(max(0.0, end - time.monotonic())))
            good = sum(
                "result" in answer and not answer["result"].get("isError") for answer in answers
            )
            ran = upstream.count("effects", "order")
        finally:
            end_tree(client.process.pid, client.close)
            upstream.close()
    return {"lost": calls - good, "of": calls, "reported": len(answers) - good, "ran": ran}


def outage(calls: int, seconds: float, *, only_ours: bool) -> dict[str, dict[str, int]]:
    """Return the row; it is empty without nginx."""
    if NGINX is None:
        return {}
    names = NAMES[:1] if only_ours else NAMES
    relays = [
        relay
        for relay in RELAYS
        if relay.name in names and (relay.front, relay.back) == ("stdio", "HTTP")
    ]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(len(relays)) as threads:
        rows = threads.map(
            lambda relay: lost_behind(
                relay, Path(folder) / str(RELAYS.index(relay)), calls, seconds
            ),
            relays,
        )
        return dict(zip([relay.name for relay in relays], rows, strict=True))
