import sys, json

V = "2026-07-28"
K = "io.modelcontextprotocol/"


def out(m):
    print(json.dumps({"jsonrpc": "2.0", **m}), flush=True)


listens = {}
for line in sys.stdin:
    m = json.loads(line)
    i = m.get("id")
    meth = m.get("method")
    p = m.get("params") or {}
    meta = p.get("_meta", {})
    if i is None:
        if meth == "notifications/cancelled":
            listens.pop(p["requestId"], None)
        continue
    if meth == "initialize" or meta.get(K + "protocolVersion") != V:
        out(
            {
                "id": i,
                "error": {
                    "code": -32022,
                    "message": "Unsupported protocol version",
                    "data": {"supported": [V]},
                },
            }
        )
        continue
    if meth == "server/discover":
        out(
            {
                "id": i,
                "result": {
                    "resultType": "complete",
                    "supportedVersions": [V],
                    "capabilities": {"tools": {}, "resources": {"subscribe": True}},
                    "instructions": "hi",
                    "ttlMs": 0,
                    "cacheScope": "private",
                    "_meta": {K + "serverInfo": {"name": "mo", "version": "9"}},
                },
            }
        )
    elif meth == "tools/list":
        out(
            {
                "id": i,
                "result": {
                    "resultType": "complete",
                    "tools": [
                        {"name": "ask", "inputSchema": {"type": "object"}},
                        {"name": "touch", "inputSchema": {"type": "object"}},
                    ],
                    "ttlMs": 0,
                    "cacheScope": "private",
                },
            }
        )
    elif meth == "subscriptions/listen":
        listens[i] = p["notifications"]
        out(
            {
                "method": "notifications/subscriptions/acknowledged",
                "params": {"notifications": p["notifications"], "_meta": {K + "subscriptionId": i}},
            }
        )
    elif meth == "tools/call" and p["name"] == "ask":
        if "inputResponses" in p:
            out(
                {
                    "id": i,
                    "result": {
                        "resultType": "complete",
                        "content": [
                            {"type": "text", "text": json.dumps([p["inputResponses"], p.get("requestState")])}
                        ],
                    },
                }
            )
        else:
            out(
                {
                    "id": i,
                    "result": {
                        "resultType": "input_required",
                        "inputRequests": {
                            "k1": {
                                "method": "elicitation/create",
                                "params": {
                                    "mode": "form",
                                    "message": "name?",
                                    "requestedSchema": {
                                        "type": "object",
                                        "properties": {"name": {"type": "string"}},
                                    },
                                },
                            }
                        },
                        "requestState": "st8",
                    },
                }
            )
    elif meth == "tools/call":
        for l, f in listens.items():
            if f.get("toolsListChanged"):
                out(
                    {
                        "method": "notifications/tools/list_changed",
                        "params": {"_meta": {K + "subscriptionId": l}},
                    }
                )
            for u in f.get("resourceSubscriptions", []):
                out(
                    {
                        "method": "notifications/resources/updated",
                        "params": {"uri": u, "_meta": {K + "subscriptionId": l}},
                    }
                )
        out(
            {
                "id": i,
                "result": {
                    "resultType": "complete",
                    "content": [{"type": "text", "text": str(meta.get(K + "logLevel"))}],
                },
            }
        )
    else:
        out({"id": i, "error": {"code": -32601, "message": "no " + meth}})
