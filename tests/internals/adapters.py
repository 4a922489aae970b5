"""What tests use of `resilient_bridge.adapters` below its door."""

from __future__ import annotations

from tests.internals import lazily


__getattr__ = lazily(
    "resilient_bridge.adapters",
    {
        "": "limit_keys",
        "arguments": "permits",
        "http.own_transport": "Options own_transport",
        "http": "transport",
        "processes.child": "ChildProcess GRACE_SECONDS Lines STDERR_BYTES Unread",
        "processes.signals": "HANG_UP on_signals",
        "processes.standard_streams": "LINE_TOO_LONG Output lines_of",
        "sdk.sdks": "google_runs_tools openai_effect",
        "sdk.streams": "Ending",
        "sidecar": "front_http message outcomes upstream_http_lanes",
        "sidecar.calls": "Calls",
        "sidecar.defects": "request_misnamed_by request_named_in",
        "sidecar.eras": "SUBSCRIPTION",
        "sidecar.event_log": "EventLog",
        "sidecar.front_http": "serve_http",
        "sidecar.front_http_connections": "Connections",
        "sidecar.front_http_guard": "guard_of new_http_token save_http_token",
        "sidecar.front_http_limits": "HttpLimits within_open_files",
        "sidecar.front_http_server": "listening",
        "sidecar.limits": "Limits",
        "sidecar.lists": "Lists cursor_of hint_of",
        "sidecar.message": "Key Message NotAMessage key_of parse parse_line",
        "sidecar.outcomes": "PREFIX",
        "sidecar.relay": "Relay",
        "sidecar.restarts": "Restarts",
        "sidecar.running": "RunningRelay",
        "sidecar.state": "Action Close Drop GiveUp Note Open State ToClient ToServer",
        "sidecar.status": "STATUS_TOOL",
        "sidecar.upstream": "Loss LostError",
        "sidecar.upstream_child": "ChildUpstream",
        "sidecar.upstream_eras": "BothErasUpstream",
        "sidecar.upstream_http": "HTTPUpstream",
        "sidecar.upstream_http_exchange": "pause_of",
        "sidecar.upstream_http_losses": "loss_of_error",
        "sidecar.upstream_http_wire": "proxy_to",
    },
)
