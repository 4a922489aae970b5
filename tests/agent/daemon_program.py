"""A tiny real daemon for tests: GET /health is 503 while it boots, 200 when it serves. `python daemon_program.py PORT [words]`.

Words: `pids=FILE` appends its process id; `deaf=SECONDS` listens only after so long; `until=FILE` boots until that file is there;
`linger=FILE` shuts down after SIGTERM until that file is there; `stubborn` ignores SIGTERM.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


PORT = int(sys.argv[1])
WORDS = dict(word.partition("=")[::2] for word in sys.argv[2:])
STOPPING = threading.Event()


class Handler(BaseHTTPRequestHandler):
    """Answers every path alike."""

    def do_GET(self):
        booting = "until" in WORDS and not Path(WORDS["until"]).exists()
        body = f"{self.path} of {os.getpid()}".encode()
        self.send_response(503 if booting or STOPPING.is_set() else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Say nothing."""


def main():
    if "pids" in WORDS:
        with Path(WORDS["pids"]).open("a") as file:
            file.write(f"{os.getpid()}\n")
    if "stubborn" in WORDS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(float(WORDS.get("deaf", 0)))
    server = ThreadingHTTPServer(("127.0.0.1", PORT), Handler)  # OSError: the port is taken

    def stop(*_):
        STOPPING.set()
        threading.Thread(target=leave, daemon=True).start()

    def leave():
        while not Path(WORDS["linger"]).exists():
            time.sleep(0.01)
        os._exit(0)

    if "linger" in WORDS:
        signal.signal(signal.SIGTERM, stop)
    server.serve_forever(poll_interval=0.05)


main()
