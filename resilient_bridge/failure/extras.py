"""Optional packages: imported when they are needed; if missing, the error names the command.

Rule: one table and one text. Users never get an ImportError of ours, and nothing is imported before
it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from .exceptions import config_error


if TYPE_CHECKING:
    from types import ModuleType

EXTRAS: Final = {
    "mcp": ("mcp", "mcp"),
    "opentelemetry": ("opentelemetry-api", "otel"),
    "orjson": ("orjson", "fast"),
    "prometheus_client": ("prometheus-client", "prometheus"),
    "redis": ("redis", "redis"),
    "yaml": ("pyyaml", "yaml"),
}
"""By module: its package, and our extra that installs it."""


def how_to_install(module: str) -> str:
    """Return the package and the command that installs it: by our extra, else by its own name."""
    package, extra = EXTRAS.get(module.partition(".")[0], (module.partition(".")[0], ""))
    wanted = f"resilient-bridge[{extra}]" if extra else package
    return f"the package {package}: pip install {wanted!r}"


def needed(module: str, field: str) -> ModuleType:
    """Import a module of an optional package for `field`.

    Raises ConfigError with the command that installs it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise  # it exists, but something it needs is missing: its own error names that
        raise config_error(field, how_to_install(module), "no such package", write="") from error
