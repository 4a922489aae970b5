"""Parsers of text: durations, sizes, calls as in code, strict JSON, and documents in TOML, JSON and YAML.

Rule: no I/O. A text becomes plain data or a ValueError that says what was wanted; no file is
opened, and nothing that a text names is imported or run.
"""

from __future__ import annotations


__all__: list[str] = []  # each module is imported by its name
