"""Settings: plain data to values and back, from files, the environment or a dict.

Each name loads when it is first used.

Rule: no second schema. A value's own fields, converters and validators say what settings may hold;
this room adds paths, sources and hints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazily


if TYPE_CHECKING:
    from .config import Change as Change
    from .config import Config as Config
    from .config import dump as dump
    from .config import load as load

_NAMES = {"config": "Change Config dump load"}


if not TYPE_CHECKING:
    __all__, __dir__, __getattr__ = lazily(__name__, _NAMES)
