"""Plain data as TOML, YAML, JSON and variables: the formats are written here, by code that shares nothing with their readers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path


def toml(data: Mapping[str, object]) -> str:
    """A document of one line a key; what is nested stands in one line."""
    return "".join(f"{_key(key)} = {_toml(value)}\n" for key, value in data.items())


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key, re.ASCII) else _text(key)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    text = repr(value)
    return (
        text
        if isinstance(value, int) or "." in text or "e" not in text
        else text.replace("e", ".0e")
    )


def yaml(data: Mapping[str, object]) -> str:
    """JSON is YAML, but for its numbers without a point and texts with figures of JSON alone."""
    return json.dumps(data, ensure_ascii=True)


def variables(data: Mapping[str, object], prefix: str = "RESILIENT_BRIDGE_") -> dict[str, str]:
    """One variable a setting; a table whose keys are no lower-case words is one variable, in JSON."""
    found: dict[str, str] = {}
    for key, value in data.items():
        name = prefix + key.upper()
        nested = isinstance(value, Mapping) and value
        if nested and all(
            re.fullmatch(r"[a-z][a-z_]*[a-z]", each) and "__" not in each for each in value
        ):
            found |= variables(value, name + "__")
        elif isinstance(value, Mapping | list):
            found[name] = json.dumps(value)
        else:
            found[name] = _toml(value)
    return found


def sources(data: Mapping[str, object], folder: Path) -> dict[str, tuple[object, object]]:
    """Every source with the same data: its name, and the arguments `source` and `env` of `load`."""
    for name, text in (("toml", toml(data)), ("yaml", yaml(data)), ("json", json.dumps(data))):
        (folder / f"settings.{name}").write_text(text, encoding="utf-8")
    files = {name: (folder / f"settings.{name}", False) for name in ("toml", "yaml", "json")}
    return {"dict": (data, False), **files, "environment": (None, variables(data))}
