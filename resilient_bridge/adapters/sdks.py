"""What is known about the SDKs of model providers: how their own retries are switched off, what a model call is, what they raise.

Rule: facts about classes, looked up by their names; nothing is imported that the client has not imported already.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType, SimpleNamespace
from typing import Any, Final, cast

import attrs

from ..errors import config_error
from .repeats import Call


__all__ = ["SDK", "is_page", "sdk_of"]

_VIEWS: Final = ("with_raw_response.", "with_streaming_response.")  # the same calls, seen in another form


def _runs_nothing(_: Mapping[str, Any]) -> bool:
    return False


@attrs.frozen(kw_only=True)
class SDK:
    """One SDK. `resources`: the modules whose objects, or their bases, hold calls; `model_calls`: those that may be repeated.

    `steps` are methods that make several calls: each of those goes through the policy, and not the whole, for what has run
    once must not run again because a later step failed. `runs_code`: functions of the user run inside the call. `derived`
    are methods that give another client, `makes` those that give a part of this one, and ask nobody.
    """

    resources: tuple[str, ...]
    model_calls: re.Pattern[str]
    error: tuple[str, str]
    without_retries: Callable[[Any], Any]
    steps: re.Pattern[str] = re.compile(r"(?!)")
    runs_code: Callable[[Mapping[str, Any]], bool] = _runs_nothing
    derived: frozenset[str] = frozenset()
    makes: frozenset[str] = frozenset()
    async_part: str = ""

    def may_repeat(self, call: Call) -> bool:
        """Return whether a repeat of this call costs money and nothing else."""
        path = call.method
        for view in _VIEWS:
            path = path.replace(view, "")
        return self.model_calls.fullmatch(path) is not None and not self.runs_code(call.kwargs)

    def has_calls(self, value: object) -> bool:
        """Return whether an attribute is a part of the client, with calls of its own."""
        kind = type(value)
        is_part = any(base.__module__.startswith(self.resources) for base in kind.__mro__)
        return is_part and not hasattr(kind, "model_fields")

    def is_prepared(self, path: str, method: Any) -> bool:
        """Return whether a method only prepares a context manager: entering that one is the call."""
        told = getattr(inspect.unwrap(method), "__annotations__", {}).get("return")
        return "with_streaming_response." in path or "Manager" in str(told)

    def base_error(self) -> type[Exception]:
        """Return the class that every error of this SDK has."""
        module, name = self.error
        found: type[Exception] = getattr(import_module(module), name)
        return found


def is_page(value: object) -> bool:
    """Return whether this is a page of a list, which fetches the next one."""
    return hasattr(type(value), "get_next_page") or hasattr(type(value), "next_page")


def _options_without_retries(client: Any) -> Any:
    return client.with_options(max_retries=0)


def _checked(client: Any) -> Any:
    """google-genai retries only if told to, and then cannot be told otherwise."""
    options = getattr(getattr(client, "_api_client", None), "_http_options", None)
    if getattr(options, "retry_options", None) is not None:
        raise config_error(
            "wrap.client", "a Client without HttpOptions.retry_options: two retries multiply", "retry_options"
        )
    return client


def _calls_functions(kwargs: Mapping[str, Any]) -> bool:
    """google-genai calls functions among the tools by itself, inside of `generate_content`."""
    config: Any = kwargs.get("config")
    if isinstance(config, Mapping):
        config = SimpleNamespace(**cast("Any", config))
    tools: Any = getattr(config, "tools", None) or ()
    return any(callable(tool) for tool in tools)


_SDKS: Final[Mapping[str, SDK]] = MappingProxyType(
    {
        "openai": SDK(
            resources=("openai._resource", "openai.resources.", "openai._client"),
            model_calls=re.compile(
                r"(beta\.)?(chat\.completions|completions|responses)\.(create|parse|stream)"
                r"|(embeddings|moderations)\.create|[\w.]+\.(list|retrieve|get_next_page)"
            ),
            error=("openai", "OpenAIError"),
            without_retries=_options_without_retries,
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
            error=("anthropic", "AnthropicError"),
            without_retries=_options_without_retries,
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
            without_retries=_checked,
            runs_code=_calls_functions,
            makes=frozenset({"chats.create", "aio.chats.create"}),
            async_part="aio",
        ),
    }
)


def sdk_of(client: object) -> SDK | None:
    """Return what is known about a client, also about one whose class was derived from the SDK's; None for any other object."""
    for cls in client.__class__.__mro__:
        package, _, rest = cls.__module__.partition(".")
        if package == "google" and not rest.startswith("genai"):
            continue
        sdk = _SDKS.get(package)
        if sdk is not None:
            return sdk
    return None
