"""How an error body reaches a program: the response of a client, an SDK's error, an event of a stream, a text.

Rule: an SDK's error is raised by the SDK itself; only the HTTP below it is made here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.exceptions
import botocore.parsers
import httpx
import httpx2
import requests

from resilient_bridge.failure import Failure, classify, redact

from .edges import Handler, of_anthropic, of_google, of_openai


CORPUS = Path(__file__).with_name("corpus")
# Whose API openai's client speaks, as far as errors go.
COMPATIBLE = frozenset(
    "openai azure mistral groq xai deepseek moonshot zai dashscope openrouter together fireworks perplexity "
    "huggingface tgi ollama vllm sglang llama.cpp lmstudio litellm siliconflow minimax cloudflare nginx envoy".split()
)
Row = dict[str, Any]


def rows(name: str) -> list[Row]:
    """All rows of a file of the corpus."""
    return json.loads((CORPUS / f"{name}.json").read_text(encoding="utf-8"))


def raw(body: object) -> bytes:
    """A body as it stands on the wire."""
    return (body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)).encode()


def carried(row: Row) -> Iterator[tuple[str, object]]:
    """Each carrier that this row has, with what a program holds then."""
    if row["carrier"] == "http body":
        yield from _responses(row)
        if row["status"] >= 400:
            yield from _sdk_errors(row, _answering(row))
    if row["carrier"] == "stream event":
        yield from _stream_errors(row)
    for name, text in texts(row):
        yield name, RuntimeError(text)
        yield f"{name}, itself", text


def _responses(row: Row) -> Iterator[tuple[str, object]]:
    status, headers, body = row["status"], row["headers"], raw(row["body"])
    kind = (
        {}
        if "content-type" in {name.lower() for name in headers}
        else {"content-type": "application/json"}
    )
    yield "httpx", httpx.Response(status, headers={**kind, **headers}, content=body)
    yield "httpx2", httpx2.Response(status, headers={**kind, **headers}, content=body)
    answer = requests.Response()
    answer.status_code, answer._content = status, body
    answer.headers.update({**kind, **headers})
    yield "requests", answer
    if status >= 400:
        yield "requests.HTTPError", requests.HTTPError("x", response=answer)


def _answering(row: Row) -> Handler:
    kind = "application/json" if not isinstance(row["body"], str) else "text/html"
    headers = {
        "content-type": kind,
        **{name.lower(): value for name, value in row["headers"].items()},
    }
    return lambda request: httpx2.Response(row["status"], content=raw(row["body"]), headers=headers)


def _sdk_errors(row: Row, edge: Handler) -> Iterator[tuple[str, object]]:
    provider = row["provider"]
    if provider in COMPATIBLE or (provider == "google" and isinstance(row["body"], list)):
        yield "openai", of_openai(edge)
    if provider == "anthropic":
        yield "anthropic", of_anthropic(edge)
    if provider == "google" and not isinstance(row["body"], str):
        yield "google-genai", of_google(edge)
    if provider in {"bedrock", "aws"}:
        yield "botocore", _of_botocore(row)


def _of_botocore(row: Row) -> Exception:
    answer = {"status_code": row["status"], "headers": row["headers"], "body": raw(row["body"])}
    answer["headers"] = {name.lower(): value for name, value in answer["headers"].items()}
    parser = botocore.parsers.create_parser("json" if row["provider"] == "aws" else "rest-json")
    return botocore.exceptions.ClientError(parser.parse(answer, None), "Converse")


def _stream_errors(row: Row) -> Iterator[tuple[str, object]]:
    body = row["body"]

    def edge(name: str) -> Handler:
        text = f"{name}data: {json.dumps(body)}\n\n"
        kind = {"content-type": "text/event-stream"}
        return lambda request: httpx2.Response(200, content=text.encode(), headers=kind)

    if row["provider"] == "bedrock":
        [(name, error)] = body.items()
        code = {"Error": {"Code": name, "Message": error["message"]}}
        yield "EventStreamError", botocore.exceptions.EventStreamError(code, "ConverseStream")
    elif row["provider"] == "anthropic":
        yield "anthropic", of_anthropic(edge("event: error\n"), stream=True)
    elif row["provider"] == "google":
        yield "google-genai", of_google(edge(""), stream=True)
        yield "openai", of_openai(edge(""), stream=True)
    elif "error" in body:
        yield "openai", of_openai(edge(""), stream=True)


def texts(row: Row) -> Iterator[tuple[str, str]]:
    """The body as it stands in a text: of an SDK, and as JSON."""
    body, status = row["body"], row["status"]
    if row["carrier"] == "text":
        yield "text", body
        yield "text in a line", f"request failed: {body}"
        return
    as_json = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    if status is None or status < 400:
        yield "text of json", as_json
        if not isinstance(body, str):
            yield "text of python", f"stream failed: {body}"
        return
    yield "text of an sdk", f"Error code: {status} - {body}"
    yield "text of json", f"HTTP {status}: {as_json}"


def wrong(row: Row, carrier: str, what: object) -> list[str]:
    """What the verdict on this gets wrong; nothing for a right one."""
    want, failure = row["want"], classify(what)
    if not isinstance(failure, Failure):
        return ["a success"]
    text = carrier.startswith("text")
    wait = (
        want.get("wait_in_body", want["wait"])
        if text or carrier == "EventStreamError"
        else want["wait"]
    )
    got: dict[str, object] = {
        "kind": str(failure.kind),
        "retryable": failure.retryable,
        "code": failure.code,
        "category": str(failure.category),
        "reason": failure.details.get("reason"),
    }
    found = [
        f"{key}: {got[key]}, not {want[key]}"
        for key in got
        if want[key] is not None and got[key] != want[key] and not (text and key == "category")
    ]
    if failure.retry_after != wait and not (
        wait and failure.retry_after and abs(failure.retry_after - wait) < 1e-6
    ):
        found.append(f"wait: {failure.retry_after}, not {wait}")
    if "max_retries" in want and failure.details.get("max_retries") != want["max_retries"]:
        found.append("no bound of retries")
    says = " ".join(redact(want.get("says", "")).split())
    if not text and says not in failure.message:
        found.append(f"message: {failure.message[:80]!r} without the server's words")
    return found
