"""Exporters: metrics for Prometheus, metrics and traces for OpenTelemetry, health over HTTP.

Rule: an exporter computes from events and the current state, and changes nothing. The package that
it needs is imported when `install` is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazily


if TYPE_CHECKING:
    from . import otel as otel
    from . import prometheus as prometheus
    from .health import health_app as health_app

_NAMES = {
    "health": "health_app",
    "=otel": "otel",
    "=prometheus": "prometheus",
}


if not TYPE_CHECKING:
    __all__, __dir__, __getattr__ = lazily(__name__, _NAMES)
