"""The classes that never represent a failure.

This is a separate module because every call reads it and few programs need more.
"""

from __future__ import annotations

from typing import Final


PLAIN: Final[set[type]] = {type(None), bool, int, float, str, bytes, list, tuple, dict}
"""What a function returns of these classes is its success. It grows as results are seen; registering a class with `classify` removes the
class."""
PLAIN_ANSWERS: Final[set[type]] = PLAIN - {dict}
"""The same for what a tool or a server answers, where a dict can be a failure in the form of a specification."""
