"""Settings: reads values from files, the environment or a dict, and writes them as plain data.

Each name is imported on first use.

Rule: no second schema. A value's own fields, converters and validators define what settings may
hold; this package adds paths, sources and hints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazily


if TYPE_CHECKING:
    from .config import Change as Change
    from .config import Config as Config
    from .config import dump as dump
    from .config import load as load

_NAMES = {"config": "Change Config dump"}

_INSIDE = {"config": "load"}  # listed at the top level


if not TYPE_CHECKING:
    __all__, __dir__, __getattr__ = lazily(__name__, _NAMES, _INSIDE)
