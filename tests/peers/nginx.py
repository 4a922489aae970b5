"""nginx on free loopback ports, as a real proxy in front of a test's server.

Rule: a test configures it with nginx's own directives. HTTP/1.1 in clear text at `url()`, HTTP/2 over TLS at `secure_url()`.
Where nginx is missing, tests are skipped and say so: mark them with `needs_nginx`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from tests.peers.ports import HOST, Port
from tests.peers.running import Process, until


PROGRAM = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
needs_nginx = pytest.mark.skipif(
    PROGRAM is None, reason="nginx is missing: apt-get install nginx-light"
)

_TEMP_FOLDERS = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
_CONFIG = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log notice; {user}
events {{ worker_connections 512; }}
http {{
    access_log off; {temp_paths}
    {http}
    upstream behind {{ server {host}:{upstream} max_fails=0; keepalive 32; }}
    server {{
        listen {host}:{plain};
        listen {host}:{secure} ssl http2;
        ssl_certificate {folder}/chain.pem; ssl_certificate_key {folder}/key.pem;
        client_max_body_size 8m;
        {server}
        location / {{
            proxy_pass http://behind; proxy_http_version 1.1; proxy_set_header Connection "";
            proxy_set_header Host $http_host; proxy_next_upstream off; proxy_buffering off;
        }}
    }}
}}
"""


class Nginx(Process):
    """nginx; `trust` is the TLS context that knows its certificate."""

    def __init__(self, folder: Path, plain: int, secure: int, trust: ssl.SSLContext) -> None:
        """Name the folder with its configuration; nothing runs yet."""
        command = [
            str(PROGRAM),
            "-c",
            str(folder / "nginx.conf"),
            "-p",
            str(folder),
            "-e",
            str(folder / "error.log"),
        ]
        super().__init__(command, plain, folder / "nginx.log")
        self.secure = secure
        self.trust = trust
        self._errors = folder / "error.log"
        self._reloading = asyncio.Lock()

    def url(self, path: str = "/") -> str:
        """The address for HTTP/1.1."""
        return super().url(path)

    def secure_url(self, path: str = "/") -> str:
        """The address for HTTP/2 over TLS."""
        return f"https://{HOST}:{self.secure}{path}"

    @property
    def workers(self) -> int:
        """How many worker processes were started since the beginning: one more after each reload."""
        return self._logged("start worker process ")

    def _logged(self, words: str) -> int:
        return self._errors.read_text().count(words) if self._errors.exists() else 0

    async def reload(self, *, is_old_gone: bool = False) -> None:
        """Reload the configuration, as a deployment does: the old worker ends its connections (GOAWAY), and a new one serves.

        The old one accepts connections for a moment longer; `is_old_gone`: wait until it has ended, as it does
        without connections.
        """
        async with self._reloading:  # two at once would be one
            before, ended = self.workers, self._logged(" exited with code ")
            os.kill(self.pid, signal.SIGHUP)
            await until(lambda: self.workers > before, "a new worker of nginx")
            if is_old_gone:
                await until(
                    lambda: self._logged(" exited with code ") > ended,
                    "the end of the old worker of nginx",
                )


@asynccontextmanager
async def nginx(
    folder: Path, upstream: int, *, http: str = "", server: str = ""
) -> AsyncIterator[Nginx]:
    """Run nginx in front of a loopback port; stop it at the end of the block.

    `http` and `server`: more directives for these blocks, such as `keepalive_requests 5;` or
    `limit_req zone=all nodelay;`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    authority = trustme.CA()
    certificate = authority.issue_cert(HOST, "localhost")
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(folder / "chain.pem")
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    with Port() as plain, Port() as secure:
        (folder / "nginx.conf").write_text(
            _CONFIG.format(
                folder=folder,
                host=HOST,
                upstream=upstream,
                plain=plain.number,
                secure=secure.number,
                http=http,
                server=server,
                temp_paths=" ".join(f"{name}_temp_path {folder}/{name};" for name in _TEMP_FOLDERS),
                user="user root;"
                if os.geteuid() == 0
                else "",  # its worker must reach the folder of the test
            )
        )
        front = Nginx(folder, plain.number, secure.number, trust)
        await front.start()
        try:
            yield front
        finally:
            await front.stop()
