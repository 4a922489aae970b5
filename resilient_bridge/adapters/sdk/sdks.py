"""Facts about the SDKs of model providers: their retries, model calls, errors and addresses.

Rule: classes are recognised by their names. No library is imported that the client has not
imported already. A model call has an effect beside its cost if tools run inside it, or at the
provider; an argument that is unknown, or cannot be inspected without consuming it, counts as a tool
that runs.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, cast
from urllib.parse import urlsplit
from weakref import ref

import attrs

from ...calls.ports import request_sent
from ...failure import BridgeError, config_error
from ...transports.loopback import is_loopback
from ..arguments import plaintext_refused
from ..http.request_checks import COUNTED
from ..sdk_errors import add_base


_LOOPS: Final = re.compile(r"(aio\.)?(models\.generate_content|chats\.send_message)(_stream)?")
"""Calls of google-genai that call the model, run the tools it requests, and call it again."""

# attributes with the same calls, whose results have another form
_VIEWS: Final = ("with_raw_response.", "with_streaming_response.")


@attrs.frozen(kw_only=True)
class SDK:
    """The facts about one SDK.

    `resources` are the modules of the classes, or base classes, whose objects have calls.
    `model_calls` are the calls that may be repeated. `model_paths` are the URL paths at which a
    `post` of the client itself is one of them, as litellm makes it.

    `steps` are methods that make several calls. Each of these goes through the policy, not the
    method as a whole: a completed step must not run again when a later one fails. `has_effect`
    returns whether a model call does more than cost money, `runs_tools` whether tools run in this
    process, inside the call. Both get the call's arguments by name, and the part of the client that
    has the method.

    `counts_requests` makes the client's requests be counted, and returns whether that is possible.
    `error` is the class that every error of the SDK has, `cut_error` that of a connection which broke;
    `error_fields` are attributes of such errors, with what they have when there was no answer.
    `addresses` returns the URLs to which a client sends its key, `options` the HTTP options of one
    call. `derived` are methods that return another client, `makes` those that return a part of this
    one without a request.
    """

    resources: tuple[str, ...]
    model_calls: re.Pattern[str]
    model_paths: frozenset[str] = frozenset()
    error: tuple[str, str]
    cut_error: tuple[str, str]
    error_fields: Mapping[str, Any]
    without_retries: Callable[[Any], Any]
    counts_requests: Callable[[Any], bool]
    steps: re.Pattern[str] = re.compile(r"(?!)")
    has_effect: Callable[[Mapping[str, Any], object], bool]
    runs_tools: Callable[[str, Mapping[str, Any], object], bool] = (
        lambda _method, _arguments, _owner: False
    )
    addresses: Callable[[Any], Iterable[object]]
    options: Callable[[Mapping[str, Any], object], object] | None = None
    derived: frozenset[str] = frozenset()
    makes: frozenset[str] = frozenset()
    async_part: str = ""

    def may_repeat(self, path: str, arguments: Mapping[str, Any], owner: object) -> bool:
        """Return whether a repeat of this call costs money and nothing else."""
        for view in _VIEWS:
            path = path.replace(view, "")
        if path == "post":
            return self._is_bare_model_call(arguments, owner)
        return self.model_calls.fullmatch(path) is not None and not self.has_effect(
            arguments, owner
        )

    def _is_bare_model_call(self, arguments: Mapping[str, Any], owner: object) -> bool:
        """Return whether a `post` of the client itself is a model call, by its path and body."""
        body: object = arguments.get("body")
        more: object = field_of(arguments.get("options") or {}, "extra_json") or {}
        if arguments.get("path") not in self.model_paths or arguments.get("files"):
            return False
        if not isinstance(body, Mapping) or not isinstance(more, Mapping):
            return False
        return not self.has_effect(
            {**cast("Mapping[str, Any]", body), **cast("Mapping[str, Any]", more)}, owner
        )

    def check_client(self, client: Any) -> None:
        """Raise CONN_INSECURE for a client that sends its key in clear text (threat 42)."""
        _check_plaintext(self.addresses(client))

    def check_call(
        self, arguments: Mapping[str, Any], owner: object, *, allow_plaintext_credentials: bool
    ) -> None:
        """Raise the same for the HTTP options of one call, and ConfigError for retries in them."""
        options = None if self.options is None else self.options(arguments, owner)
        if options is None:
            return
        _check_retries(field_of(options, "retry_options"), "wrap.call")
        if not allow_plaintext_credentials:
            _check_plaintext((field_of(options, "base_url"),))

    def has_calls(self, value: object) -> bool:
        """Return whether an attribute is a part of the client, with calls of its own."""
        kind = type(value)
        is_part = any(base.__module__.startswith(self.resources) for base in kind.__mro__)
        return is_part and not hasattr(kind, "model_fields")

    def is_prepared(self, path: str, method: Any) -> bool:
        """Return whether a method only returns a context manager, and entering that is the call."""
        returned = getattr(inspect.unwrap(method), "__annotations__", {}).get("return")
        return "with_streaming_response." in path or "Manager" in str(returned)

    def add_base(self, error: BridgeError, *, request: object = None) -> None:
        """Make an error of ours one of this SDK's as well: of a broken connection, or any."""
        module, name = self.cut_error if error.failure.code == "CONN_RESET" else self.error
        add_base(error, getattr(import_module(module), name))
        own = vars(error)
        for field, value in self.error_fields.items():
            own.setdefault(field, copy.copy(value))
        own.setdefault("message", error.failure.message)
        if request is not None:
            own["request"] = request


def is_page(value: object) -> bool:
    """Return whether this is a page of a list, which fetches the next one."""
    return hasattr(type(value), "get_next_page") or hasattr(type(value), "next_page")


def _options_without_retries(client: Any) -> Any:
    """Return a copy of a client that tries each request once, even if `max_retries` changes."""
    made = client.with_options(max_retries=0)
    made.request = _TriedOnce(made)
    return made


def copied(value: Any) -> Any:
    """Return a shallow copy of a client, or of a part of one, which tries each request once as well."""
    made = copy.copy(value)
    own: Mapping[str, Any] = getattr(made, "__dict__", {})
    if isinstance(own.get("request"), _TriedOnce):
        made.request = _TriedOnce(made)
    return made


class _TriedOnce:
    """A client's `request` without retries. It does not keep the client in memory."""

    def __init__(self, client: Any) -> None:
        self._request: Callable[..., Any] = cast("Any", type(client)).request
        self._client = ref(client)

    def __call__(self, cast_to: Any, options: Any, *args: Any, **kwargs: Any) -> Any:
        changed = getattr(options, "model_copy", None) or options.copy  # its name in pydantic 1
        once = changed(update={"max_retries": 0})
        return self._request(self._client(), cast_to, once, *args, **kwargs)


# ---- counting requests ---------------------------------------------------------------------------


def _count(request: Any) -> None:
    if request.extensions.get(COUNTED) != id(request):  # a redirect inherits the extensions
        request.extensions[COUNTED] = id(request)
        request_sent()


async def _count_async(request: Any) -> None:
    _count(request)


def _counting(client: Any) -> bool:
    """Count the requests of an HTTP client of httpx or httpx2 in their attempts, with redirects.

    Return False if that is impossible. A proof is about the last request only; the number of
    requests shows whether that was the whole call.
    """
    hooks = getattr(client, "event_hooks", None)
    if not isinstance(hooks, dict) or "request" not in hooks:
        return False
    hook = _count_async if hasattr(client, "__aenter__") else _count
    parts: list[Any] = list(cast("dict[str, list[Any]]", hooks)["request"])
    if hook not in parts:
        client.event_hooks = {**hooks, "request": [hook, *parts]}
    return True


def _counts_own_client(client: Any) -> bool:
    return _counting(getattr(client, "_client", None))


def _counts_google_clients(client: Any) -> bool:
    api = getattr(client, "_api_client", None)
    both = [
        _counting(getattr(api, name, None)) for name in ("_httpx_client", "_async_httpx_client")
    ]
    return all(both) and getattr(api, "_use_aiohttp", None) is _never


def _addresses(client: Any) -> Iterable[object]:
    return client.base_url, getattr(client, "websocket_base_url", None)


def _check_plaintext(addresses: Iterable[object]) -> None:
    for address in addresses:
        url = urlsplit(str(address or ""))
        if url.scheme in ("http", "ws") and not is_loopback(url.hostname or ""):
            shown = f"{url.scheme}://{url.netloc.rpartition('@')[2]}"
            raise plaintext_refused(f"{url.scheme}s", shown, "wrap")


# ---- effects of a model call ---------------------------------------------------------------------


def field_of(value: object, name: str) -> Any:
    """Return the value of an object or a mapping under a name; None if there is none."""
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, Any]", value)
        first, *rest = name.split("_")
        # google-genai accepts camelCase, too
        return fields.get(name, fields.get(first + "".join(map(str.title, rest))))
    return getattr(value, name, None)


def openai_effect(arguments: Mapping[str, Any], _owner: object) -> bool:
    """Return whether the provider runs tools without asking, or stores messages in a conversation.

    `background=True` counts as no effect: a response that is never fetched costs money, as a lost
    answer does.
    """
    body = _body(arguments) if "extra_body" in arguments else arguments
    if body.get("conversation"):
        return True
    tools = body.get("tools") or ()
    if not isinstance(tools, Collection):
        return True
    return any(
        field_of(tool, "type") == "mcp" and field_of(tool, "require_approval") != "always"
        for tool in cast("Collection[object]", tools)
    )


def anthropic_effect(arguments: Mapping[str, Any], _owner: object) -> bool:
    """Return whether the provider runs tools: those of MCP servers."""
    return bool(_body(arguments).get("mcp_servers"))


def _body(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    extra = arguments.get("extra_body")
    return (
        {**arguments, **cast("Mapping[str, Any]", extra)}
        if isinstance(extra, Mapping)
        else arguments
    )


# ---- google-genai --------------------------------------------------------------------------------


def _without_google_retries(client: Any) -> Any:
    """Configure a client of google-genai to try once, and return it.

    It cannot be copied, so this client itself is changed. Without this it repeats a request through
    aiohttp once, and one of `interactions` and similar four times. It is also made to use httpx2,
    whose errors are known, unless its user chose aiohttp by a session or by arguments for it.
    """
    api = getattr(client, "_api_client", None)
    options = getattr(api, "_http_options", None)
    if api is None or options is None:
        return client
    _check_retries(field_of(options, "retry_options"), "wrap.client")
    if field_of(options, "retry_options") is None:
        once = import_module("google.genai.types").HttpRetryOptions(attempts=1)
        api._http_options = options.model_copy(update={"retry_options": once})  # noqa: SLF001
        for part in (client, getattr(client, "_aio", None)):
            for name, made in dict(getattr(part, "__dict__", {})).items():
                # It was created with the retries, and is created again on the next use.
                if "sdk_configuration" in getattr(made, "__dict__", {}):
                    setattr(part, name, None)
    is_chosen = field_of(options, "aiohttp_client") is not None or field_of(
        options, "async_client_args"
    )
    if not is_chosen and getattr(api, "_async_httpx_client", None) is not None:
        api._use_aiohttp = _never  # noqa: SLF001
    return client


def _never() -> bool:
    return False


def _check_retries(asked: object, path: str) -> None:
    if asked is not None and field_of(asked, "attempts") not in (0, 1):
        raise config_error(
            path,
            "a Client without HttpOptions.retry_options: two retries multiply",
            "retry_options",
        )


def _google_addresses(client: Any) -> Iterable[object]:
    options = getattr(getattr(client, "_api_client", None), "_http_options", None)
    return (field_of(options, "base_url"),)


def google_config(arguments: Mapping[str, Any], owner: object) -> object:
    """Return the config of a call: its own, or that of its chat."""
    return arguments.get("config") or getattr(owner, "_config", None)


def google_effect(arguments: Mapping[str, Any], owner: object) -> bool:
    """Return whether the provider runs tools: those of MCP servers."""
    tools = field_of(google_config(arguments, owner), "tools") or ()
    if not isinstance(tools, Collection):
        return True
    return any(field_of(tool, "mcp_servers") for tool in cast("Collection[object]", tools))


def google_runs_tools(method: str, arguments: Mapping[str, Any], owner: object) -> bool:
    """Return whether the SDK runs tools inside a call.

    It runs functions and MCP sessions, and on Vertex AI also the tools of MCP servers.
    """
    config = google_config(arguments, owner)
    tools = field_of(config, "tools") or ()
    if (
        _LOOPS.fullmatch(method) is None
        or not tools
        or _is_off(field_of(config, "automatic_function_calling"))
    ):
        return False
    if not isinstance(tools, Collection):
        return True
    return any(_is_run(tool, owner) for tool in cast("Collection[object]", tools))


def _is_off(calling: object) -> bool:
    most = field_of(calling, "maximum_remote_calls")
    return field_of(calling, "disable") is True or (isinstance(most, int) and most <= 0)


def _is_run(tool: object, owner: object) -> bool:
    if callable(tool) or not (
        issubclass(type(tool), Mapping) or hasattr(type(tool), "model_fields")
    ):
        return True
    api = getattr(getattr(owner, "_modules", owner), "_api_client", None)
    return bool(field_of(tool, "mcp_servers") and getattr(api, "vertexai", False))


# ---- the table -----------------------------------------------------------------------------------


_SDKS: Final[Mapping[str, SDK]] = MappingProxyType(
    {
        "openai": SDK(
            resources=("openai._resource", "openai.resources.", "openai._client"),
            model_calls=re.compile(
                r"(beta\.)?(chat\.completions|completions|responses)\.(create|parse|stream)"
                r"|(embeddings|moderations)\.create|[\w.]+\.(list|retrieve|get_next_page)"
            ),
            model_paths=frozenset(
                {"/chat/completions", "/completions", "/embeddings", "/moderations", "/responses"}
            ),
            error=("openai", "OpenAIError"),
            cut_error=("openai", "APIConnectionError"),
            error_fields={"request": None, "body": None, "type": None},
            without_retries=_options_without_retries,
            counts_requests=_counts_own_client,
            has_effect=openai_effect,
            addresses=_addresses,
            steps=re.compile(
                r"[\w.]+\.(\w+_and_poll|poll|create_and_run_poll|wait_for_processing|upload_file_chunked|iter_pages)"
                r"|vector_stores\.files\.upload"
            ),
            derived=frozenset({"with_options", "copy"}),
        ),
        "anthropic": SDK(
            resources=("anthropic._resource", "anthropic.resources.", "anthropic._client"),
            model_calls=re.compile(
                r"(beta\.)?messages\.(create|parse|stream|count_tokens)|completions\.create|[\w.]+\.(list|retrieve|get_next_page)"
            ),
            model_paths=frozenset({"/v1/complete", "/v1/messages", "/v1/messages/count_tokens"}),
            error=("anthropic", "AnthropicError"),
            cut_error=("anthropic", "APIConnectionError"),
            error_fields={"request": None, "body": None, "type": None},
            without_retries=_options_without_retries,
            counts_requests=_counts_own_client,
            has_effect=anthropic_effect,
            addresses=_addresses,
            steps=re.compile(r"[\w.]+\.(tool_runner|thread|iter_pages)"),
            derived=frozenset({"with_options", "copy", "with_middleware"}),
        ),
        "google": SDK(
            resources=("google.genai.",),
            model_calls=re.compile(
                r"(aio\.)?(models\.(generate_content|generate_content_stream|embed_content|count_tokens|compute_tokens)"
                r"|chats\.(send_message|send_message_stream)|[\w.]+\.(list|get|next_page))"
            ),
            error=("google.genai.errors", "APIError"),
            cut_error=("google.genai.errors", "APIError"),
            error_fields={"code": 0, "status": None, "details": {}, "response": None},
            without_retries=_without_google_retries,
            counts_requests=_counts_google_clients,
            has_effect=google_effect,
            runs_tools=google_runs_tools,
            addresses=_google_addresses,
            options=lambda arguments, owner: field_of(
                google_config(arguments, owner), "http_options"
            ),
            makes=frozenset({"chats.create", "aio.chats.create"}),
            async_part="aio",
        ),
    }
)


PACKAGES: Final = frozenset(_SDKS)
"""The top-level packages of the SDKs that are known here."""


def sdk_of(client: object) -> SDK | None:
    """Return the facts about a client of an SDK's class or a subclass, None for other objects."""
    for cls in client.__class__.__mro__:
        package, _, rest = cls.__module__.partition(".")
        if package == "google" and not rest.startswith("genai"):
            continue
        sdk = _SDKS.get(package)
        if sdk is not None:
            return sdk
    return None
