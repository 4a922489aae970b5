"""The sources of settings (a file, a mapping, the environment), merged into one document that
records where each path was written.

Rule: the environment is read on request, never at import; it overrides the file.
"""

from __future__ import annotations

import json
import math
import os
import stat
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from ..config.documents import (
    FORMATS,
    MOST_BYTES,
    Document,
    DocumentError,
    checked,
    joined,
    read_document,
)
from ..failure import Problem, config_errors


if TYPE_CHECKING:
    from ..calls.policy import SettingsSource


PREFIX: Final = "RESILIENT_BRIDGE_"
_LEVEL: Final = "__"
_DEBUG: Final = "gasoline:"


class Origin(NamedTuple):
    """Where a path was written: the file with its line, where known, the variable, or a dict."""

    source: str
    line: int | None = None


class Merged(NamedTuple):
    """One document of all sources; `title` names them for errors, `below` names the source that the
    environment overrides, and `texts` has the variables as they were written, by path.
    """

    title: str
    data: Mapping[str, Any]
    origins: Mapping[str, Origin]
    below: str
    texts: Mapping[str, str]

    def origin(self, path: str) -> Origin | None:
        """Return where this path was written, else where the nearest path around it was; None if
        neither was.
        """
        return self.origins.get(self.nearest(path))

    def nearest(self, path: str) -> str:
        """Return this path if it was written, else the nearest written one around it.

        Empty if there is none.
        """
        while path and path not in self.origins:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return path


def read_sources(source: SettingsSource, environment: Mapping[str, str] | None) -> Merged:
    """Read and merge all sources; ConfigError for a file that cannot be read, is too large, or not
    in its format.
    """
    below, document = _read(source)
    title = below
    origins: dict[str, Origin] = {}
    texts: dict[str, str] = {}
    _note(document.data, "", title, document.lines, origins)
    data: Any = document.data
    if environment is not None:
        of_own: dict[str, Origin] = {}
        own = _of_environment(environment, of_own, texts)
        if own.get("preset", data.get("preset")) == "gasoline":
            data = merged(data, _of_gasoline(environment, origins))
        data = merged(data, own)
        origins |= of_own  # last, because the environment overrides
        title = f"{title} and the environment" if source is not None else "the environment"
    return Merged(title, data, origins, below, texts)


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge both, table by table; where one of two values is no table, that of `above` is used."""
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        result[key] = merged(cast("Any", old), cast("Any", value)) if both else value
    return result


def _read(source: SettingsSource) -> tuple[str, Document]:
    if source is None:
        return "the environment", Document({}, {})
    title = "a dict" if isinstance(source, Mapping) else str(os.fspath(source))
    try:
        if isinstance(source, Mapping):
            return title, Document(checked(source), {})
        return title, read_document(_bytes(Path(source)), _form(Path(source)))
    except DocumentError as error:
        problem = Problem(title, str(error), None, error.line)
    except (OSError, ValueError) as error:  # a ValueError is a name that no file can have
        words = getattr(error, "strerror", None) or str(error)
        problem = Problem(title, f"cannot be read: {words.lower()}{_instead(source)}")
    raise config_errors(title, [problem])


def _instead(source: object) -> str:
    """Return what to write instead of a file that cannot be read: a near one, or the text itself."""
    text = os.fspath(cast("str", source))
    if "\n" in text or "=" in text:
        return "; write rb.load(tomllib.loads(text)) for a text that is not a path"
    folder = Path(text).parent
    try:
        near = get_close_matches(
            Path(text).name, [each.name for each in folder.iterdir() if each.suffix in FORMATS], 1
        )
    except OSError:
        near = []
    if near:
        return f"; write rb.load({str(folder / near[0])!r})"
    return f" (looked in {Path(text).absolute().parent}); create it with a first line such as retry = {{attempts = 4}}"


def _form(path: Path) -> str:
    form = FORMATS.get(path.suffix.lower())
    if form is None:
        raise DocumentError(f"wanted a file that ends in one of {', '.join(FORMATS)}")
    return form


def _bytes(path: Path) -> bytes:
    if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for its writer
        raise DocumentError("wanted a file, got something else")
    with path.open("rb") as file:
        return file.read(MOST_BYTES + 1)


def _note(
    data: Any, path: str, title: str, lines: Mapping[str, int], origins: dict[str, Origin]
) -> None:
    items: list[tuple[Any, Any]] = []
    if isinstance(data, Mapping):
        items = list(cast("Mapping[str, Any]", data).items())
    elif isinstance(data, list):
        items = [*enumerate(cast("Any", data))]
    for key, value in items:
        below = joined(path, key)
        around = origins[path].line if path in origins else None  # a value in one line has one line
        origins[below] = Origin(title, lines.get(below, around))
        _note(value, below, title, lines, origins)


# ---- the environment -------------------------------------------------------------------------------------------------


def _of_environment(
    environment: Mapping[str, str], origins: dict[str, Origin], texts: dict[str, str]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in sorted(environment, key=lambda each: (each.count(_LEVEL), each)):
        if not name.startswith(PREFIX) or name == PREFIX:
            continue
        keys = name[len(PREFIX) :].lower().split(_LEVEL)
        value = _value(environment[name])
        table, path = found, ""
        for key in keys[:-1]:
            path = joined(path, key)
            if not isinstance(table.get(key), dict):
                table[key] = {}
            table = table[key]
        path = joined(path, keys[-1])
        origins[path], texts[path] = Origin(name), environment[name]
        _note(value, path, name, {}, origins)
        table[keys[-1]] = value
    try:
        return cast("dict[str, Any]", checked(found))
    except DocumentError as error:
        raise config_errors("the environment", [Problem("the environment", str(error))]) from None


def _value(text: str) -> Any:
    """Return the value of a variable: as in TOML or JSON, else the text itself."""
    try:
        found = (
            tomllib.loads(f"value = {text}") if "\n" not in text and len(text) <= MOST_BYTES else {}
        )
    except (ValueError, RecursionError):
        found = {}
    value: Any = found.get("value") if len(found) == 1 else None
    if value is None and text[:1] in {"{", "["}:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
    if isinstance(value, float) and not math.isfinite(value):
        return text
    return cast("Any", value) if isinstance(value, bool | int | float | str | list | dict) else text


def _of_gasoline(environment: Mapping[str, str], origins: dict[str, Origin]) -> dict[str, Any]:
    """Return the settings of Gasoline's own variables; they are read only with its preset."""
    table: dict[str, Any] = {}
    if "GASOLINE_PORT" in environment:
        table["port"] = _value(environment["GASOLINE_PORT"])
        origins["gasoline.port"] = Origin("GASOLINE_PORT")
    if any(word.strip().startswith(_DEBUG) for word in environment.get("DEBUG", "").split(",")):
        table["debug"] = True
        origins["gasoline.debug"] = Origin("DEBUG")
    return {"gasoline": table} if table else {}
