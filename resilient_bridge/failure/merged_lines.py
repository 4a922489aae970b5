"""Two lines of source text that make one: calls of the same function, with the arguments of both."""

from __future__ import annotations

import ast
from typing import Final

from ..lazy_names import found


_LAST: Final = 99  # of a policy


def merged(first: str, second: str) -> str:
    """Return two calls of one function as one, with the arguments of both; else the second."""
    if not first or not second:
        return first or second
    try:
        one, other = (ast.parse(each.lstrip("@"), mode="eval").body for each in (first, second))
    except SyntaxError:
        return second
    together = _merged_nodes(one, other)
    return ("@" if first.startswith("@") else "") + ast.unparse(together)


def _merged_nodes(one: ast.expr, other: ast.expr) -> ast.expr:
    if not isinstance(one, ast.Call) or not isinstance(other, ast.Call):
        return other
    if isinstance(one.func, ast.Call) and isinstance(
        other.func, ast.Call
    ):  # rb.Policy(…)(idempotent=True)
        one.func = _merged_nodes(one.func, other.func)
    elif ast.unparse(one.func) != ast.unparse(other.func):
        return other
    for argument in other.args:
        head = ast.unparse(argument.func) if isinstance(argument, ast.Call) else ""
        same = next(
            (
                n
                for n, old in enumerate(one.args)
                if isinstance(old, ast.Call) and ast.unparse(old.func) == head
            ),
            None,
        )
        if same is None:
            one.args.append(argument)
        else:
            one.args[same] = _merged_nodes(one.args[same], argument)
    for keyword in other.keywords:
        old = next((each for each in one.keywords if each.arg == keyword.arg), None)
        if old is None:
            one.keywords.append(keyword)
        else:
            old.value = _merged_nodes(old.value, keyword.value)
    if ast.unparse(one.func) == "rb.Policy":
        one.args.sort(key=_position)
    return one


def _position(layer: ast.expr) -> int:
    head = ast.unparse(layer).removeprefix("rb.").partition("(")[0].partition(".")[0]
    position: int | None = getattr(found(head), "usual_position", None)
    return _LAST if position is None else position
