"""What is known about the SDKs of model providers: how their own retries are switched off, what a model call is, what they raise.

Rule: facts about classes, looked up by their names; nothing is imported that the client has not imported already.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

import attrs

from ..errors import config_error


__all__ = ["SDK", "sdk_of"]

_VIEWS: Final = ("with_raw_response.", "with_streaming_response.")  # the same calls, seen in another form


@attrs.frozen(kw_only=True)
class SDK:
    """One SDK. `resources`: the modules whose objects hold calls; `model_calls`: those that may be repeated."""

    resources: tuple[str, ...]
    model_calls: re.Pattern[str]
    error: tuple[str, str]
    without_retries: Callable[[Any], Any]
    derived: frozenset[str] = frozenset()
    async_part: str = ""

    def is_model_call(self, path: str) -> bool:
        """Return whether a repeat of this call costs money and nothing else."""
        for view in _VIEWS:
            path = path.replace(view, "")
        return self.model_calls.fullmatch(path) is not None

    def has_calls(self, value: object) -> bool:
        """Return whether an attribute is a part of the client, with calls of its own."""
        module = type(value).__module__
        return module.startswith(self.resources) and not hasattr(type(value), "model_fields")

    def base_error(self) -> type[Exception]:
        """Return the class that every error of this SDK has."""
        module, name = self.error
        found: type[Exception] = getattr(import_module(module), name)
        return found


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


_SDKS: Final[Mapping[str, SDK]] = MappingProxyType(
    {
        "openai": SDK(
            resources=("openai.resources.",),
            model_calls=re.compile(
                r"(beta\.)?(chat\.completions|completions|responses)\.(create|parse|stream)"
                r"|(embeddings|moderations)\.create|[\w.]+\.(list|retrieve)"
            ),
            error=("openai", "OpenAIError"),
            without_retries=_options_without_retries,
            derived=frozenset({"with_options", "copy"}),
        ),
        "anthropic": SDK(
            resources=("anthropic.resources.",),
            model_calls=re.compile(
                r"(beta\.)?messages\.(create|parse|stream|count_tokens)|completions\.create|[\w.]+\.(list|retrieve)"
            ),
            error=("anthropic", "AnthropicError"),
            without_retries=_options_without_retries,
            derived=frozenset({"with_options", "copy"}),
        ),
        "google": SDK(
            resources=("google.genai.",),
            model_calls=re.compile(
                r"(aio\.)?(models\.(generate_content|generate_content_stream|embed_content|count_tokens|compute_tokens)"
                r"|chats\.(send_message|send_message_stream)|[\w.]+\.(list|get))"
            ),
            error=("google.genai.errors", "APIError"),
            without_retries=_checked,
            async_part="aio",
        ),
    }
)


def sdk_of(client: object) -> SDK | None:
    """Return what is known about a client, also about one whose class was derived from the SDK's; None for any other object."""
    for cls in type(client).__mro__:
        package, _, rest = cls.__module__.partition(".")
        if package == "google" and not rest.startswith("genai"):
            continue
        sdk = _SDKS.get(package)
        if sdk is not None:
            return sdk
    return None
