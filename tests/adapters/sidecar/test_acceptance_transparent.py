"""Everything that the protocol defines passes both ways: the feature server's rows and the conformance suite, with the sidecar in between."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.mcp_features.feature_rows import COMMAND, problems
from bench.mcp_features.row_table import ROWS
from tests.adapters.sidecar import servers
from tests.adapters.sidecar.standing_in import deployed, listening, stands_in_for
from tests.peers.ports import Port


pytestmark = [pytest.mark.real, pytest.mark.requirement("X7")]
SOUND = dict.fromkeys(ROWS, "")
OF_THE_SERVER = {  # whose server asks: one that several clients share may ask none of them
    *("roots", "sampling", "elicitation", "vendor_request_of_the_server", "the_clients_error"),
    "client_info_and_capabilities",
}


@contextmanager
def at_a_url(command: Sequence[str]) -> Iterator[str]:
    """A server that prints its URL and ends with its input."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate("")


def test_every_row_passes_between_pipes():
    """A command behind a sidecar over stdio: each row as without it."""
    assert problems(stands_in_for(COMMAND)) == SOUND


@pytest.mark.server
def test_every_row_passes_from_pipes_to_http():
    """The same command behind `--http`."""
    with listening(COMMAND) as sidecar:
        assert problems(sidecar.url) == SOUND


@pytest.mark.server
def test_every_row_but_the_servers_own_requests_passes_where_clients_share_a_server():
    """`--shared` offers the server nothing that one client alone could answer, and everything else is the same."""
    with listening(COMMAND, "--shared") as sidecar:
        found = problems(sidecar.url)
    assert {name for name, problem in found.items() if problem} == OF_THE_SERVER


@pytest.mark.server
def test_every_row_passes_from_a_url():
    """The server at a URL: behind a sidecar over stdio, and behind `--http`."""
    with at_a_url((*COMMAND, "--http", "0")) as url:
        assert problems(stands_in_for(url)) == SOUND
        with listening(url) as sidecar:
            assert problems(sidecar.url) == SOUND


@contextmanager
def sdks_own() -> Iterator[str]:
    """The URL of the Python SDK's own server for the suite."""
    with Port() as port, deployed(servers.sdk_server(port.number), port.number):
        yield f"http://127.0.0.1:{port.number}/mcp"


def _passed(url: str, folder: Path) -> tuple[int, int]:
    passed, failed, printed = servers.conformance(url, folder)
    assert failed == 0, printed
    return passed, failed


@pytest.mark.server
@servers.needs("servers", "sdk")
def test_the_conformance_suite_counts_the_same_for_the_python_sdks_own_server(tmp_path):
    """40 checks of 40 of a server that its authors wrote for the suite: at its URL, and at its URL behind `--http`."""
    with sdks_own() as url:
        direct = _passed(url, tmp_path)
        with listening(url) as sidecar:
            behind = _passed(sidecar.url, tmp_path)
    assert behind == direct == (40, 0)


@pytest.mark.server
@pytest.mark.campaign
@servers.needs("servers", "sdk")
def test_the_conformance_suite_counts_the_same_for_the_python_sdks_own_server_over_stdio(tmp_path):
    """The same server as a command behind `--http`, which starts one for each of the suite's thirty sessions."""
    with sdks_own() as url:
        direct = _passed(url, tmp_path)
    with listening(servers.sdk_server()) as sidecar:
        behind = _passed(sidecar.url, tmp_path)
    assert behind == direct == (40, 0)


@pytest.mark.server
@servers.needs("node", "servers")
def test_the_conformance_suite_counts_the_same_on_the_typescript_sdk(tmp_path):
    """40 checks of 40 of our fixtures on the TypeScript SDK: at its URL, at its URL behind `--http`, and as a command behind `--http`."""
    with at_a_url(servers.conformance_server(0)) as url:
        direct = _passed(url, tmp_path)
        with listening(url) as sidecar:
            from_a_url = _passed(sidecar.url, tmp_path)
    with listening(servers.conformance_server()) as sidecar:
        from_a_command = _passed(sidecar.url, tmp_path)
    assert from_a_command == from_a_url == direct == (40, 0)
