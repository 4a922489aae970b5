"""botocore's errors, parsed by its real client from a loopback endpoint, and gRPC's, from a real server."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json

import botocore.config
import botocore.exceptions
import botocore.session
import grpc
import pytest

from resilient_bridge.failure import classify, model_type
from tests.failure.wires import Wires, answering, running, status


pytestmark = pytest.mark.real


def _row(failure) -> str:
    return f"{failure.code} {'yes' if failure.retryable else 'no'}"


# ---- botocore ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wires():
    """The servers, once for all tests of this file."""
    with running() as running_wires:
        yield running_wires


def _aws(url: str, **options: object):
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "canary-secret"} | options
    config = botocore.config.Config(
        retries={"total_max_attempts": 1}, connect_timeout=0.4, read_timeout=0.4, proxies={}
    )
    session = botocore.session.Session(profile=None, include_builtin_handlers=True)
    return session.create_client(
        "dynamodb", region_name="us-east-1", endpoint_url=url, config=config, **keys
    )


def _answer(code: str, number: int) -> bytes:
    body = json.dumps({"__type": f"com.amazonaws.dynamodb#{code}", "message": "why"}).encode()
    return status(
        f"{number} X", "Content-Type: application/x-amz-json-1.0", "Retry-After: 7", body=body
    )


AWS = {
    ("ThrottlingException", 400): "SYS_RATE_LIMITED yes",
    ("ProvisionedThroughputExceededException", 400): "SYS_RATE_LIMITED yes",
    ("RequestLimitExceeded", 400): "SYS_RATE_LIMITED yes",
    ("SlowDown", 503): "SYS_RATE_LIMITED yes",
    ("InternalServerError", 500): "SYS_UNAVAILABLE yes",
    ("Nobody knows this", 503): "SYS_UNAVAILABLE yes",
    ("Nobody knows this", 400): "SYS_UPSTREAM_REJECTED no",
    ("ValidationException", 400): "SYS_UPSTREAM_REJECTED no",
    ("ResourceNotFoundException", 400): "SYS_UPSTREAM_REJECTED no",
    ("AccessDeniedException", 400): "AUTH_FORBIDDEN no",
    ("UnrecognizedClientException", 400): "AUTH_INVALID_TOKEN no",
    ("ExpiredTokenException", 400): "AUTH_TOKEN_EXPIRED no",
}


@pytest.mark.parametrize(("code", "number"), AWS)
async def test_what_aws_answers(code, number):
    """AWS uses status 400 for nearly everything, so its code decides. It may have run, because the client retries by itself."""
    serve = answering(_answer(code, number))

    async def closing(reader, writer):
        await serve(reader, writer)
        writer.close()

    async with await asyncio.start_server(closing, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(botocore.exceptions.ClientError) as caught:
            await asyncio.to_thread(lambda: _aws(url).list_tables())
    failure = classify(caught.value)
    assert (_row(failure), failure.executed) == (AWS[code, number], "maybe")
    assert failure.retry_after == (7.0 if failure.retryable else None)
    assert failure.details["reason"] == code
    assert failure.details["http_status"] == number


@pytest.mark.parametrize(
    ("wire", "wanted"),
    [
        ("refused", "CONN_REFUSED yes"),
        ("dns", "CONN_DNS_FAILED yes"),
        ("full", "CONN_TIMEOUT yes"),
        ("silent", "CONN_TIMEOUT yes"),
        ("closed", "CONN_RESET yes"),
        ("certificate", "CONN_TLS_HANDSHAKE_FAILED no"),
    ],
)
def test_what_breaks_on_the_way_to_aws(wires: Wires, wire, wanted):
    """botocore's own classes wrap urllib3's errors."""
    with pytest.raises(botocore.exceptions.BotoCoreError) as caught:
        _aws(wires.url(wire)).list_tables()
    failure = classify(caught.value)
    assert (_row(failure), failure.executed) == (wanted, "maybe")


def test_what_botocore_refuses_itself(wires: Wires, monkeypatch):
    """Wrong parameters, no keys and no region are configuration errors, with advice that names them."""
    with pytest.raises(botocore.exceptions.ParamValidationError) as caught:
        _aws(wires.url("busy")).get_item()
    assert classify(caught.value).suggestions == ("correct the parameters it names",)
    missing = classify(botocore.exceptions.NoCredentialsError())
    assert (missing.category, missing.suggestions) == (
        "CONFIG",
        ("set the access key, a profile or a role",),
    )
    assert classify(botocore.exceptions.NoRegionError()).category == "CONFIG"


# ---- gRPC --------------------------------------------------------------------------------------------------------

GRPC = {
    "CANCELLED": "SYS_UPSTREAM_REJECTED no unknown",
    "UNKNOWN": "SYS_UPSTREAM_REJECTED no unknown",
    "INVALID_ARGUMENT": "SYS_UPSTREAM_REJECTED no unknown",
    "DEADLINE_EXCEEDED": "SYS_TIMEOUT yes timeout",
    "NOT_FOUND": "SYS_UPSTREAM_REJECTED no not_found",
    "ALREADY_EXISTS": "SYS_UPSTREAM_REJECTED no unknown",
    "PERMISSION_DENIED": "AUTH_FORBIDDEN no permission",
    "RESOURCE_EXHAUSTED": "SYS_RATE_LIMITED yes rate_limit",
    "FAILED_PRECONDITION": "SYS_UPSTREAM_REJECTED no unknown",
    "ABORTED": "SYS_UNAVAILABLE yes unknown",
    "OUT_OF_RANGE": "SYS_UPSTREAM_REJECTED no unknown",
    "UNIMPLEMENTED": "SYS_UPSTREAM_REJECTED no unknown",
    "INTERNAL": "SYS_UNAVAILABLE yes unknown",
    "UNAVAILABLE": "SYS_UNAVAILABLE yes unknown",
    "DATA_LOSS": "SYS_UPSTREAM_REJECTED no unknown",
    "UNAUTHENTICATED": "AUTH_INVALID_TOKEN no permission",
}


def _same(data: bytes) -> bytes:
    return data


@pytest.fixture(scope="module")
def grpc_port():
    """A server whose method ends with the requested status, with a wait in its metadata."""

    def fail(request: bytes, context: grpc.ServicerContext) -> bytes:
        context.set_trailing_metadata((("grpc-retry-pushback-ms", "1500"),))
        context.abort(grpc.StatusCode[request.decode()], "because")
        raise AssertionError

    method = grpc.unary_unary_rpc_method_handler(fail, _same, _same)
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("S", {"M": method}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield port
    server.stop(None).wait()


def _grpc_error(port: int, name: str, seconds: float = 10) -> grpc.RpcError:
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.unary_unary("/S/M", request_serializer=_same, response_deserializer=_same)
        with pytest.raises(grpc.RpcError) as caught:
            call(name.encode(), timeout=seconds)
    return caught.value


@pytest.mark.parametrize("name", GRPC)
def test_every_status_of_grpc(grpc_port, name):
    """Its code decides; the pushback in the metadata is the wait of a retryable failure; it may have run."""
    failure = classify(_grpc_error(grpc_port, name))
    assert f"{_row(failure)} {model_type(failure)}" == GRPC[name]
    assert failure.executed == "maybe"
    assert failure.retry_after == (1.5 if failure.retryable else None)
    assert failure.message.endswith(": because")


async def test_grpc_aio(grpc_port):
    """The asyncio client raises a class of its own."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{grpc_port}") as channel:
        call = channel.unary_unary("/S/M", request_serializer=_same, response_deserializer=_same)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(b"RESOURCE_EXHAUSTED", timeout=10)
    assert (_row(classify(caught.value)), classify(caught.value).retry_after) == (
        "SYS_RATE_LIMITED yes",
        1.5,
    )


def test_grpc_without_a_server(wires: Wires):
    """Refused, and a server that never answers."""
    assert _row(classify(_grpc_error(wires.ports["refused"], "OK", 5))) == "CONN_REFUSED yes"
    silent = classify(_grpc_error(wires.ports["silent"], "OK", 0.5))
    assert (_row(silent), silent.executed) == ("SYS_TIMEOUT yes", "maybe")
