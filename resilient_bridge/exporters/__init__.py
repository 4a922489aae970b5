"""Exporters of events: metrics for Prometheus, metrics and traces for OpenTelemetry, health over HTTP.

Rule: an exporter is a listener. It computes from events alone and changes nothing, and its package
loads when it is installed.
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
