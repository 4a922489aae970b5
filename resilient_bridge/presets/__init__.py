"""Ready-made policies: `default` is recommended, each other follows a published specification."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import missing
from .ready import ccsetup, default, gasoline, openviber, recursor, stdiobus


__all__ = ["ccsetup", "default", "gasoline", "openviber", "recursor", "stdiobus"]


if not TYPE_CHECKING:
    __getattr__ = missing(__name__)
