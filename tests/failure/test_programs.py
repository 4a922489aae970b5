"""Output and exit codes of real programs: curl, git, ssh, wget, psql, docker and timeout.

The texts were printed by the programs (LC_ALL=C); the tests marked `real` run them again.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

import resilient_bridge as rb
from resilient_bridge.failure import classify, exit_finding, model_type, text_finding
from tests.rows import each_row


PRINTED = """
6|transient|unknown|curl: (6) Could not resolve host: nosuch.invalid
7|transient|unknown|curl: (7) Failed to connect to 127.0.0.1 port 9 after 0 ms: Couldn't connect to server
5|transient|unknown|curl: (5) Could not resolve proxy: nosuch.invalid
28|transient|timeout|curl: (28) Operation timed out after 1001 milliseconds with 0 bytes received
28|transient|timeout|curl: (28) SSL connection timeout
52|transient|unknown|curl: (52) Empty reply from server
35|transient|unknown|curl: (35) OpenSSL SSL_connect: SSL_ERROR_SYSCALL in connection to 127.0.0.1:7002
55|transient|unknown|curl: (55) Send failure: Broken pipe
56|transient|unknown|curl: (56) Recv failure: Connection reset by peer
92|transient|unknown|curl: (92) HTTP/2 stream 1 was not closed cleanly: INTERNAL_ERROR (err 2)
18|transient|unknown|curl: (18) transfer closed with 96 bytes remaining to read
22|transient|unknown|curl: (22) The requested URL returned error: 503
22|transient|rate_limit|curl: (22) The requested URL returned error: 429
22|permanent|not_found|curl: (22) The requested URL returned error: 404
60|permanent|unknown|curl: (60) SSL certificate problem: unable to get local issuer certificate
3|permanent|unknown|curl: (3) URL rejected: No host part in the URL
128|transient|unknown|fatal: unable to access 'http://127.0.0.1:9/x.git/': Failed to connect to 127.0.0.1 port 9 after 0 ms: Couldn't connect to server
128|transient|unknown|fatal: unable to access 'http://nosuch.invalid/x.git/': Could not resolve host: nosuch.invalid
128|transient|unknown|fatal: unable to access 'http://127.0.0.1:7002/x.git/': Empty reply from server
128|transient|unknown|fatal: unable to access 'http://127.0.0.1:7006/x.git/': The requested URL returned error: 503
128|transient|rate_limit|fatal: unable to access 'http://127.0.0.1:7007/x.git/': The requested URL returned error: 429
128|transient|timeout|fatal: unable to access 'http://127.0.0.1:7001/x.git/': Operation too slow. Less than 1000 bytes/sec transferred the last 1 seconds
128|transient|unknown|fatal: unable to look up nosuch.invalid (port 9418) (Name or service not known)
128|transient|unknown|fatal: unable to connect to 127.0.0.1:\\n127.0.0.1[0: 127.0.0.1]: errno=Connection refused
128|transient|unknown|ssh: connect to host 127.0.0.1 port 9: Connection refused\\nfatal: Could not read from remote repository.
128|transient|unknown|error: RPC failed; curl 92 HTTP/2 stream 5 was not closed cleanly\\nfatal: early EOF
128|transient|unknown|fatal: the remote end hung up unexpectedly
128|transient|unknown|fatal: Unable to create '/x/.git/index.lock': File exists.
128|permanent|unknown|fatal: unable to access 'https://127.0.0.1:7008/x.git/': server certificate verification failed. CAfile: none CRLfile: none
128|permanent|unknown|fatal: '/nosuch/x.git' does not appear to be a git repository\\nfatal: Could not read from remote repository.
128|permanent|permission|git@github.com: Permission denied (publickey).\\nfatal: Could not read from remote repository.
128|permanent|unknown|fatal: not a git repository (or any of the parent directories): .git
255|transient|unknown|ssh: Could not resolve hostname nosuch.invalid: Name or service not known
255|transient|unknown|kex_exchange_identification: Connection closed by remote host\\nConnection closed by 127.0.0.1 port 7002
255|transient|timeout|Connection timed out during banner exchange\\nConnection to 127.0.0.1 port 7001 timed out
255|permanent|permission|user@127.0.0.1: Permission denied (publickey,password).
255|permanent|unknown|Host key verification failed.
4|transient|unknown|Connecting to 127.0.0.1:9... failed: Connection refused.
4|transient|unknown|wget: unable to resolve host address 'nosuch.invalid'
4|transient|timeout|HTTP request sent, awaiting response... Read error (Connection timed out) in headers.
4|transient|unknown|No data received.
8|transient|unknown|http://127.0.0.1:7006/:\\n2026-11-23 03:02:08 ERROR 503: Service Unavailable.
2|transient|unknown|psql: error: connection to server at "127.0.0.1", port 9 failed: Connection refused
2|transient|unknown|psql: error: could not translate host name "nosuch.invalid" to address: Name or service not known
2|transient|unknown|psql: error: connection to server at "127.0.0.1", port 7002 failed: server closed the connection unexpectedly
1|transient|unknown|Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?
1|transient|unknown|error during connect: Get "http://nosuch.invalid:9/v1.50/containers/json": dial tcp: lookup nosuch.invalid on 10.0.0.1:53: no such host
1|transient|unknown|error during connect: Get "http://127.0.0.1:7002/v1.50/containers/json": EOF
1|transient|unknown|request returned 503 Service Unavailable for API route and version http://127.0.0.1:7006/v1.50/containers/json
1|transient|timeout|Error response from daemon: Get "https://registry-1.docker.io/v2/": net/http: TLS handshake timeout
1|transient|timeout|Error response from daemon: Get "https://registry-1.docker.io/v2/": dial tcp 1.2.3.4:443: i/o timeout
1|transient|timeout|Get "http://x/": context deadline exceeded (Client.Timeout exceeded while awaiting headers)
1|transient|rate_limit|toomanyrequests: You have reached your pull rate limit.
1|transient|unknown|npm error code ECONNREFUSED\\nnpm error syscall connect
1|permanent|unknown|write error: Disk quota exceeded
"""
TEXTS = """
transient|timeout|Read timed out. (read timeout=5)
transient|timeout|HTTPSConnectionPool(host='x', port=443): Read timed out.
transient|timeout|HTTP timeout
transient|timeout|Worker w1 timed out
transient|timeout|timeout of 5000ms exceeded
transient|unknown|DNS failure
transient|unknown|temporary file lock
transient|unknown|TypeError: fetch failed
transient|unknown|connect ENETUNREACH 10.0.0.1:443
transient|unknown|('Connection aborted.', RemoteDisconnected('Remote end closed connection without response'))
permanent|unknown|Disk quota exceeded
permanent|unknown|write ENOSPC
"""


@pytest.mark.requirement("C1")
@each_row("row", PRINTED.strip().splitlines())
def test_f03_what_a_program_printed_before_it_failed(row):
    """Network errors, time limits and rate limits are transient; a certificate, a login and a missing repository are not (R11)."""
    code, kind, word, text = row.split("|", 3)
    failure = exit_finding(int(code), text.replace("\\n", "\n")).failure()
    assert (failure.kind, failure.retryable) == (kind, kind == "transient")
    assert model_type(failure) == word
    assert failure.executed != "no"
    assert failure.details["exit_code"] == int(code)


@pytest.mark.requirement("C1")
@each_row("row", TEXTS.strip().splitlines())
def test_f03_f16_the_same_words_raised_as_an_error(row):
    """The text alone, in an exception as tools raise it, has the same verdict."""
    kind, word, text = row.split("|", 2)
    failure = classify(RuntimeError(text))
    assert (failure.kind, model_type(failure), failure.executed) == (kind, word, "maybe")


@each_row(
    ("program", "code", "kind", "word"),
    [
        *(("curl", code, "transient", "unknown") for code in (5, 6, 7, 18, 35, 52, 55, 56, 92)),
        ("curl", 28, "transient", "timeout"),
        *(("curl", code, "permanent", "unknown") for code in (1, 2, 3, 22, 23, 60)),
        ("/usr/bin/ssh", 255, "transient", "unknown"),
        ("wget", 4, "transient", "unknown"),
        ("wget", 8, "permanent", "unknown"),
        ("timeout", 124, "transient", "timeout"),
        ("anything", 124, "transient", "timeout"),
        ("anything", 137, "transient", "unknown"),
        ("anything", 7, "permanent", "unknown"),
        ("anything", 255, "permanent", "unknown"),
        ("curly", 7, "permanent", "unknown"),
    ],
)
def test_f03_a_silent_program_is_known_by_its_exit_code(program, code, kind, word):
    """`curl -s` prints nothing: then its exit code decides, while the same code of another program decides nothing."""
    failure = classify(subprocess.CalledProcessError(code, [program, "-s", "http://host/"]))
    assert (failure.kind, model_type(failure)) == (kind, word)


def test_h07_a_rate_limited_command_waits_as_rate_limits_do():
    """Its code is SYS_RATE_LIMITED, so that a preset's rule for it (jitter, the provider's 60 s) applies to commands as well."""
    failure = exit_finding(22, "curl: (22) The requested URL returned error: 429").failure()
    assert (failure.code, failure.retryable, failure.executed) == ("SYS_RATE_LIMITED", True, "yes")
    assert str(failure) == "command failed with exit code 22: rate limited (UPSTREAM, 429)"


def test_h07_no_memory_is_tried_once_more():
    """R11: "Out of memory | Maybe | Retry once, then fail", from an errno and as a text."""
    for error in (
        OSError(12, "Cannot allocate memory"),
        MemoryError(),
        RuntimeError("spawn ENOMEM"),
    ):
        failure = classify(error)
        assert (failure.retryable, failure.details["max_retries"]) == (True, 1), error
        assert failure.suggestions == ("ask for less at once",)


@pytest.mark.parametrize(
    ("text", "message", "advice"),
    [
        ("Failed to start daemon: X", "daemon did not start: Failed", "stale process"),
        ("ENOENT: no such file or directory, open 'x'", "not found: ENOENT", "path's spelling"),
        ("EACCES: permission denied", "not permitted: EACCES", "permissions"),
        ("bash: foo: command not found", "command not found: bash", "search path"),
        ("Invalid argument", "not valid: Invalid argument", "correct what the message names"),
    ],
)
def test_f11_a_local_failure_has_a_local_message(text, message, advice):
    """A missing daemon is not "network unreachable", and a missing file is not "rejected by the server"."""
    failure = classify(RuntimeError(text))
    assert failure.message.startswith(message)
    assert advice in failure.suggestions[0]


def test_f11_a_bare_timeout_speaks_of_no_connection():
    """A tool's own TimeoutError does not mention a host."""
    failure = classify(TimeoutError())
    assert (failure.message, failure.suggestions) == (
        "timed out",
        ("allow more time, or ask for less at once",),
    )


def test_f11_a_validation_error_is_one_to_the_model():
    """pydantic's error is V6's `validation`, still INTERNAL and not retried (S10); the advice is to correct the values."""
    from mcp_types import ErrorData
    from pydantic import ValidationError

    with pytest.raises(ValidationError) as caught:
        ErrorData.model_validate({})
    failure = classify(caught.value)
    assert (model_type(failure), failure.category, failure.retryable) == (
        "validation",
        "INTERNAL",
        False,
    )
    assert failure.suggestions == ("correct the values it names",)


def test_the_more_particular_of_two_texts_counts():
    """The text after "Connection aborted" decides: a reset, or a name that is not resolved."""
    assert (
        text_finding(
            "('Connection aborted.', ConnectionResetError(104, 'Connection reset by peer'))"
        ).code
        == "CONN_RESET"
    )
    assert text_finding("error during connect: lookup x: no such host").code == "CONN_DNS_FAILED"
    assert text_finding("error during connect: EOF").code == "CONN_UNREACHABLE"


# ---- the programs themselves -----------------------------------------------------------------------------------


@contextmanager
def _server(answer: bytes | None):
    """A port that answers each connection with these bytes and closes it; with None it sends nothing."""
    ended = threading.Event()

    def serve(listener: socket.socket) -> None:
        held = []
        while not ended.is_set():
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            held.append(connection)
            if answer is not None:
                connection.recv(65_536)
                connection.sendall(answer)
                connection.close()
        for connection in held:
            connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            ended.set()
            thread.join()


_LIMITED = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n"
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
REAL = [
    ("curl -sS http://nosuch.invalid/", b"", "transient", "unknown"),
    ("curl -sS http://127.0.0.1:1/", b"", "transient", "unknown"),
    ("curl -s http://127.0.0.1:1/", b"", "transient", "unknown"),
    ("curl -sS --max-time 0.3 http://127.0.0.1:{port}/", None, "transient", "timeout"),
    ("curl -sS http://127.0.0.1:{port}/", b"", "transient", "unknown"),
    ("curl -sSf http://127.0.0.1:{port}/", _BUSY, "transient", "unknown"),
    ("curl -sSf http://127.0.0.1:{port}/", _LIMITED, "transient", "rate_limit"),
    ("git ls-remote http://127.0.0.1:1/x.git", b"", "transient", "unknown"),
    ("git ls-remote http://127.0.0.1:{port}/x.git", _BUSY, "transient", "unknown"),
    ("git ls-remote http://127.0.0.1:{port}/x.git", b"", "transient", "unknown"),
    ("git ls-remote /nosuch/x.git", b"", "permanent", "unknown"),
    ("ssh -F none -o BatchMode=yes -p 1 127.0.0.1 true", b"", "transient", "unknown"),
    ("timeout 0.1 sleep 3", b"", "transient", "timeout"),
]


@pytest.mark.real
@pytest.mark.requirement("C1")
@pytest.mark.requirement("R11")
@pytest.mark.parametrize(
    ("command", "answer", "kind", "word"),
    [row for row in REAL if shutil.which(row[0].split()[0]) and sys.platform != "win32"],
)
async def test_f03_the_real_program_as_a_command(monkeypatch, command, answer, kind, word):
    """As a command of a Toolbox, against a loopback server, it has this kind and this word for the model."""
    for name, value in (
        ("LC_ALL", "C"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("NO_PROXY", "*"),
        ("no_proxy", "*"),
    ):
        monkeypatch.setenv(name, value)
    toolbox = rb.agent.Toolbox(rb.Policy(rb.Timeout(30, thread=True)))
    with _server(answer) as port:
        words = command.format(port=port).split()

        @toolbox.command
        def program() -> list[str]:
            return words

        outcome = await toolbox.call("program", {})
    failure = outcome.failure
    assert failure is not None
    assert (failure.kind, outcome.type) == (kind, word), failure
