"""The readers of text: quantities, calls as in code, and documents in TOML, JSON and YAML.

Rule: pure. A text becomes plain data or a ValueError that says what was wanted; nothing is opened,
imported by name, or run.
"""

from __future__ import annotations


__all__: list[str] = []  # each module is imported by its name
