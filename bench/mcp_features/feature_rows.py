"""What `feature_server.py` says, row by row: `rows(command_or_url)` tells what of it arrives at a client unchanged.

    python -m bench.mcp_features.feature_rows COMMAND…  |  URL

Rule: a row compares with what the server is known to send, as JSON, and never with what a client makes of it. Each row uses a
session that was opened once, so a row must not depend on another.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from . import feature_data as server
from .raw_client import Client, connect
from .row_table import ANSWERS, OPENED, REFUSED, ROWS, result, row, same


SERVER = Path(__file__).with_name("feature_server.py")
COMMAND = (sys.executable, str(SERVER))


def problems(
    target: Sequence[str] | str, headers: Mapping[str, str] | None = None
) -> dict[str, str]:
    """What is wrong with each row at a client of this command or URL; empty text if nothing is."""
    found = dict.fromkeys(ROWS, "")
    with connect(target, headers) as client:
        for method, result in ANSWERS.items():
            client.answers[method] = lambda _, result=result: result
        opened = client.initialize(
            OPENED["capabilities"], OPENED["protocolVersion"], clientInfo=OPENED["clientInfo"]
        )
        for name, check in ROWS.items():
            try:
                check(client, opened["result"])
            except Exception as error:  # noqa: BLE001 -- what is wrong is the result
                found[name] = f"{type(error).__name__}: {error}"[:600]
    return found


def rows(target: Sequence[str] | str, headers: Mapping[str, str] | None = None) -> dict[str, bool]:
    """Whether each row arrives as it does without anything in between."""
    return {name: not problem for name, problem in problems(target, headers).items()}


# ---- what is opened --------------------------------------------------------------------------------------------------
@row
def server_info(_: Client, opened: Mapping[str, Any]) -> None:
    same(opened["serverInfo"], server.SERVER_INFO)


@row
def instructions(_: Client, opened: Mapping[str, Any]) -> None:
    same(opened["instructions"], server.INSTRUCTIONS)


@row
def protocol_version(_: Client, opened: Mapping[str, Any]) -> None:
    same(opened["protocolVersion"], OPENED["protocolVersion"])


@row
def capabilities(_: Client, opened: Mapping[str, Any]) -> None:
    same(opened["capabilities"], server.CAPABILITIES)


@row
def unknown_fields_of_initialize(_: Client, opened: Mapping[str, Any]) -> None:
    same([opened["_meta"], opened["x-unknown"]], [{"example.com/hello": "ü"}, [1]])


@row
def client_info_and_capabilities(client: Client, _: Mapping[str, Any]) -> None:
    seen = result(client.request("example.com/seen"))["opened"]
    same({key: seen[key] for key in OPENED}, OPENED)


# ---- lists -----------------------------------------------------------------------------------------------------------
def _pages(client: Client) -> list[Any]:
    pages = [result(client.request("tools/list", {}))]
    while (cursor := pages[-1].get("nextCursor")) is not None:
        assert len(pages) < 10
        pages.append(result(client.request("tools/list", {"cursor": cursor})))
    return pages


@row
def pagination(client: Client, _: Mapping[str, Any]) -> None:
    same([len(page["tools"]) for page in _pages(client)], [5, 5, 2])
    same([page["x-page"] for page in _pages(client)], [0, 5, 10])


@row
def tools_with_unknown_fields_and_annotations(client: Client, _: Mapping[str, Any]) -> None:
    same([tool for page in _pages(client) for tool in page["tools"]], server.TOOLS)


@row
def prompts(client: Client, _: Mapping[str, Any]) -> None:
    same(result(client.request("prompts/list", {})), {"prompts": server.PROMPTS, "x-list": 1})
    params = {"name": "greet", "arguments": {"who": "ü"}, "x-param": [1]}
    prompt = result(client.request("prompts/get", params))
    same(json.loads(prompt["messages"][0]["content"]["text"]), params)
    assert prompt["x-prompt"] is True


@row
def resources(client: Client, _: Mapping[str, Any]) -> None:
    same(result(client.request("resources/list", {})), {"resources": server.RESOURCES, "x-list": 2})
    templates = {"resourceTemplates": server.TEMPLATES, "x-list": 3}
    same(result(client.request("resources/templates/list")), templates)
    read = result(client.request("resources/read", {"uri": "feature://one"}))["contents"]
    wanted = {"uri": "feature://one", "blob": "AAEC", "mimeType": "x/y", "x-c": 1}
    same(read, [wanted, {"uri": "feature://one", "text": "t"}])


@row
def completion(client: Client, _: Mapping[str, Any]) -> None:
    params = {
        "ref": {"type": "ref/prompt", "name": "greet"},
        "argument": {"name": "who", "value": "ü"},
        "context": {"arguments": {"a": "b"}},
    }
    wanted = {
        "completion": {"values": ["ü!"], "total": 1, "hasMore": False},
        "x-context": params["context"],
    }
    same(result(client.request("completion/complete", params)), wanted)


# ---- calls -----------------------------------------------------------------------------------------------------------
@row
def request_meta(client: Client, _: Mapping[str, Any]) -> None:
    meta = {"traceparent": "00-0af7-b7ad-01", "example.com/key": {"deep": [1.0, None]}}
    echoed = result(client.call("echo", {"marker": "m"}, _meta=meta))["structuredContent"]
    same(echoed["_meta"], meta)


@row
def unknown_params(client: Client, _: Mapping[str, Any]) -> None:
    params = {"name": "echo", "arguments": {"marker": "ü", "n": 1.0}, "x-param": {"a": [{}]}}
    echoed = result(client.request("tools/call", params))["structuredContent"]
    same({key: echoed[key] for key in params}, params)


@row
def unknown_contents(client: Client, _: Mapping[str, Any]) -> None:
    same(result(client.call("contents")), server.CONTENTS)


@row
def digits_of_numbers(client: Client, _: Mapping[str, Any]) -> None:
    client.call("numbers")
    assert any(server.NUMBERS in text for text in client.texts), "the digits were written anew"


@row
def large_result(client: Client, _: Mapping[str, Any]) -> None:
    assert len(result(client.call("large"))["content"][0]["text"]) == server.LARGE


@row
def progress_with_the_callers_token(client: Client, _: Mapping[str, Any]) -> None:
    for token in ("ü-token", 7):
        begin = len(client.notifications)
        client.call("progress", _meta={"progressToken": token})
        arrived = [message["params"] for message in client.notifications[begin:]]
        wanted = [
            {
                "progressToken": token,
                "progress": step,
                "total": 2,
                "message": f"ü{step}",
                "x-unknown": {"a": 1},
            }
            for step in (0.5, 1, 2)
        ]
        same(arrived, wanted)


@row
def notifications_before_the_answer(client: Client, _: Mapping[str, Any]) -> None:
    begin = len(client.texts)
    client.call("progress", _meta={"progressToken": "order"})
    methods = [json.loads(text).get("method", "answer") for text in client.texts[begin:]]
    same(methods, ["notifications/progress"] * 3 + ["answer"])


@row
def ids_as_they_were(client: Client, _: Mapping[str, Any]) -> None:
    """A string and a number of the same digits, at once; and ids that are falsy or strange."""
    numbers = [1001, "1001", 0, "", -5, "ü", 2**53]
    futures: list[Future[Any]] = [
        client.begin("tools/call", {"name": "echo", "arguments": {"marker": repr(n)}}, n)
        for n in numbers
    ]
    answers = [future.result(20) for future in futures]
    same([answer["id"] for answer in answers], numbers)
    markers = [result(answer)["structuredContent"]["arguments"]["marker"] for answer in answers]
    same(markers, [repr(n) for n in numbers])


@row
def error_with_data(client: Client, _: Mapping[str, Any]) -> None:
    same(client.call("fails").get("error"), server.ERROR)


@row
def unknown_method(client: Client, _: Mapping[str, Any]) -> None:
    same(client.request("example.com/nothing", {})["error"]["code"], -32601)


@row
def cancellation(client: Client, _: Mapping[str, Any]) -> None:
    """It reaches the server, and the call has no answer."""
    call = client.begin(
        "tools/call", {"name": "wait", "arguments": {"marker": "stop"}}, "to-cancel"
    )
    client.wait_for(lambda: bool(client.notified("example.com/waiting")) or call.done(), 5)
    assert client.notified("example.com/waiting"), "the call never began"
    client.notify("notifications/cancelled", {"requestId": "to-cancel", "reason": "ü"})
    for _wait in range(100):
        if "stop" in (seen := result(client.request("example.com/seen")))["cancelled"]:
            break
    else:
        raise AssertionError("the server never saw it")
    reasons = [
        n["params"]["reason"]
        for n in seen["notifications"]
        if n["method"] == "notifications/cancelled"
    ]
    same(reasons, ["ü"])
    ids = [
        message.get("id") for message in map(json.loads, client.texts) if "method" not in message
    ]
    assert "to-cancel" not in ids, "a cancelled call was answered"


# ---- notifications ---------------------------------------------------------------------------------------------------
@row
def list_changed_and_resources_updated(client: Client, _: Mapping[str, Any]) -> None:
    result(client.request("resources/subscribe", {"uri": "feature://ü"}))
    begin = len(client.notifications)
    client.call("changes")
    wanted = [f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")]
    wanted.append("notifications/resources/updated")

    def arrived() -> list[Any]:
        return [message for message in client.notifications[begin:] if message["method"] in wanted]

    client.wait_for(lambda: len(arrived()) >= 4, 5)
    result(client.request("resources/unsubscribe", {"uri": "feature://ü"}))
    same([message["method"] for message in arrived()], wanted)
    same(arrived()[0]["params"], {"_meta": {"example.com/because": "tools"}})
    same(arrived()[3]["params"], {"uri": "feature://ü", "x-unknown": 1})


@row
def subscriptions(client: Client, _: Mapping[str, Any]) -> None:
    result(client.request("resources/subscribe", {"uri": "feature://two"}))
    same(result(client.request("example.com/seen"))["subscribed"], ["feature://two"])
    result(client.request("resources/unsubscribe", {"uri": "feature://two"}))
    same(result(client.request("example.com/seen"))["subscribed"], [])


@row
def log_messages(client: Client, _: Mapping[str, Any]) -> None:
    same(result(client.request("logging/setLevel", {"level": "debug"})), {})
    same(result(client.request("example.com/seen"))["level"], "debug")
    begin = len(client.notifications)
    client.call("logs")
    params = {
        "level": "warning",
        "logger": "feature",
        "data": {"deep": [1, "ü"]},
        "x-unknown": None,
    }
    wanted = [
        {"jsonrpc": "2.0", "method": "notifications/message", "params": params},
        {
            "jsonrpc": "2.0",
            "method": "notifications/elicitation/complete",
            "params": {"elicitationId": "e-1"},
        },
    ]
    same(client.notifications[begin:], wanted)


@row
def roots_list_changed(client: Client, _: Mapping[str, Any]) -> None:
    params = {"_meta": {"example.com/new": 1}}
    client.notify("notifications/roots/list_changed", params)
    _arrives(client, {"method": "notifications/roots/list_changed", "params": params})


def _arrives(client: Client, wanted: Any) -> None:
    for _ in range(100):
        if wanted in result(client.request("example.com/seen"))["notifications"]:
            return
    raise AssertionError(f"the server never saw {wanted}")


# ---- the server asks -------------------------------------------------------------------------------------------------
def _asked(client: Client, method: str) -> None:
    begin = len(client.requests)
    answered = result(client.call("asks"))["structuredContent"]
    same(answered[method], {"result": ANSWERS.get(method, {})})
    params = next(
        message.get("params", {})
        for message in client.requests[begin:]
        if message["method"] == method
    )
    same(params, server.ASKED[method])


@row
def roots(client: Client, _: Mapping[str, Any]) -> None:
    _asked(client, "roots/list")


@row
def sampling(client: Client, _: Mapping[str, Any]) -> None:
    _asked(client, "sampling/createMessage")


@row
def elicitation(client: Client, _: Mapping[str, Any]) -> None:
    _asked(client, "elicitation/create")


@row
def vendor_request_of_the_server(client: Client, _: Mapping[str, Any]) -> None:
    _asked(client, "example.com/ask")


@row
def the_clients_error(client: Client, _: Mapping[str, Any]) -> None:
    usual = client.answers["elicitation/create"]

    def refuse(_: Any) -> Any:
        raise RuntimeError(REFUSED)

    client.answers["elicitation/create"] = refuse
    try:
        answered = result(client.call("asks"))["structuredContent"]
    finally:
        client.answers["elicitation/create"] = usual
    same(answered["elicitation/create"], {"error": REFUSED})


@row
def ping(client: Client, _: Mapping[str, Any]) -> None:
    same(result(client.request("ping")), {})
    same(result(client.call("asks"))["structuredContent"]["ping"], {"result": {}})


# ---- what no specification has ---------------------------------------------------------------------------------------
@row
def vendor_method(client: Client, _: Mapping[str, Any]) -> None:
    params = {"deep": [1.0, {"ü": None}]}
    same(result(client.request("example.com/echo", params)), {"params": params})


@row
def params_as_a_list(client: Client, _: Mapping[str, Any]) -> None:
    same(result(client.request("example.com/echo", [1, "ü", None])), {"params": [1, "ü", None]})


@row
def vendor_notification(client: Client, _: Mapping[str, Any]) -> None:
    """To the server, with params as a list; and back."""
    client.notify("example.com/poke", ["ü", 1.0])
    _arrives(client, {"method": "example.com/poke", "params": ["ü", 1.0]})
    client.wait_for(lambda: bool(client.notified("example.com/poked")), 5)
    same(client.notified("example.com/poked"), [["ü", 1.0]])


@row
def tasks(client: Client, _: Mapping[str, Any]) -> None:
    task = result(client.call("spawn", task={"ttl": 60_000, "x-task": 1}))["task"]
    status = client.notified("notifications/tasks/status")
    same(status[-1:], [{**task, "statusMessage": "begun"}])
    named = {"taskId": task["taskId"]}
    same(result(client.request("tasks/get", named)), task)
    same(result(client.request("tasks/list", {})), {"tasks": [task], "x-list": 4})
    related = {"io.modelcontextprotocol/related-task": named}
    same(result(client.request("tasks/result", named)), {"content": [], "_meta": related})
    same(result(client.request("tasks/cancel", named)), {**task, "status": "cancelled"})
    wanted = {"code": -32602, "message": "unknown task", "data": {"taskId": "none"}}
    same(client.request("tasks/get", {"taskId": "none"})["error"], wanted)


def main(arguments: Sequence[str]) -> int:
    """Print each row; the number of rows that are not as they should be."""
    target = arguments[0] if arguments[0].startswith("http") else list(arguments)
    found = problems(target)
    for name, problem in found.items():
        sys.stdout.write(f"{'changed' if problem else 'as sent':8} {name}  {problem}\n")
    return sum(map(bool, found.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
