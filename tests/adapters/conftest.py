"""Which files of this room need what is not installed everywhere."""

from __future__ import annotations

from importlib.util import find_spec


# Not collected is not skipped: nothing may be skipped where every server is there.
collect_ignore = [
    *([] if find_spec("aiohttp") else ["test_wrap_aiohttp.py"]),
    *([] if find_spec("litellm") else ["test_litellm_over_wrapped.py"]),
]
collect_ignore_glob = (
    [] if find_spec("aiohttp") and find_spec("mcp") else ["sidecar/test_upstream_http*.py"]
)
