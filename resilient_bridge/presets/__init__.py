"""Ready-made policies: `default` is recommended, each other follows a published specification."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import missing
from ._ccsetup import ccsetup
from ._default import default
from ._gasoline import gasoline
from ._openviber import openviber
from ._recursor import recursor
from ._stdiobus import stdiobus


__all__ = ["ccsetup", "default", "gasoline", "openviber", "recursor", "stdiobus"]


if not TYPE_CHECKING:
    __getattr__ = missing(__name__)
