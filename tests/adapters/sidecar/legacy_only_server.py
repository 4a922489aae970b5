import sys, json


def out(m):
    print(json.dumps({"jsonrpc": "2.0", **m}), flush=True)


ready = False
for line in sys.stdin:
    m = json.loads(line)
    i = m.get("id")
    meth = m.get("method")
    p = m.get("params") or {}
    if i is None:
        continue
    if meth == "initialize":
        ready = True
        out(
            {
                "id": i,
                "result": {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}, "resources": {"subscribe": True}},
                    "serverInfo": {"name": "lo", "version": "1"},
                },
            }
        )
    elif not ready:
        out({"id": i, "error": {"code": -32602, "message": "Invalid request parameters"}})
    elif meth == "tools/list":
        out({"id": i, "result": {"tools": [{"name": "touch", "inputSchema": {"type": "object"}}]}})
    elif meth == "resources/subscribe":
        out({"id": i, "result": {}})
    elif meth == "tools/call":
        out({"method": "notifications/tools/list_changed"})
        out({"id": i, "result": {"content": [{"type": "text", "text": "ok"}]}})
    else:
        out({"id": i, "error": {"code": -32601, "message": "no " + meth}})
