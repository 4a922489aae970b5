"""Ready policies for links: `default` is what we recommend, the others are one specification each, number by number."""

from __future__ import annotations

from ._default import default
from ._openviber import openviber
from ._recursor import recursor
from .bridge_policy import BridgePolicy


__all__ = ["BridgePolicy", "default", "openviber", "recursor"]
