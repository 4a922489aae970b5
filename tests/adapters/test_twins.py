"""What is written twice, for sync and for async callers, says the same twice."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.rows import each_row


HTTP = Path(__file__).parents[2] / "resilient_bridge/adapters/http"
# What makes the sync text of the async one.
REPLACED = (
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait _closed\(response\)", "response.close()"),  # aiohttp's responses have no `aclose`
    (r"\bawait ", ""),
    (r"_async_request\b", "_request"),
    (r"\bis_async=True\b", "is_async=False"),
    (r"_async\b(?!=)", ""),
    (r"\b(__)?a(iter|close|enter|exit)\b", r"\1\2"),
    (r"\b__a(iter|enter|exit)__", r"__\1__"),
    (r"\bAsyncIterator\b", "Iterator"),
)
# Statements that one of them has and the other does not need.
ONLY_ASYNC = ("if CURRENT_WIRE.get()", "if races")  # the clients of mcp, and what a Hedge races
ONLY_SYNC = ("check_sync(",)  # a Timeout cannot end a call in this thread
TWINS = (
    "transport: HTTPTransport.handle_async_request HTTPTransport.handle_request",
    "transport: HTTPTransport.aclose HTTPTransport.close",
    "transport: HTTPTransport.__aenter__ HTTPTransport.__enter__",
    "transport: HTTPTransport.__aexit__ HTTPTransport.__exit__",
    "transport: _sending_async.send _sending.send",
    "bodies: peek_async peek",
    "bodies: look_async look",
    "bodies: _Around.aclose _Around.close",
    "bodies: _Body.__aiter__ _Body.__iter__",
    "bodies: _Watched.__aiter__ _Watched.__iter__",
    "bodies: _Once.__aiter__ _Once.__iter__",
    "bearer: _Bearing.handle_async_request _Bearing.handle_request",
    "own_transport: Routes.aclose Routes.close",
    "own_transport: Routes.__aenter__ Routes.__enter__",
    "own_transport: Routes.__aexit__ Routes.__exit__",
)


class _Plain(ast.NodeTransformer):
    """The same code as one writes it where nothing is awaited: `yield from`, and no name for what is returned next."""

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        match node.body:
            case [ast.Expr(ast.Yield(ast.Name(name)))] if name == ast.unparse(node.target):
                return ast.Expr(ast.YieldFrom(node.iter))
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        match node.body:
            case [*_, ast.Assign([ast.Name(named)], value), ast.Return(ast.Name(name))] if (
                named == name
            ):
                node.body[-2:] = [ast.Return(value)]
        return node


def _function(module: str, path: str) -> ast.AST:
    node: ast.AST = ast.parse((HTTP / f"{module}.py").read_text())
    for name in path.split("."):
        node = next(one for one in ast.walk(node) if getattr(one, "name", None) == name)
    return node


def _body(node: ast.AST, unneeded: tuple[str, ...]) -> str:
    """The code of a function without its name, its docstring and what its twin does not need."""
    text = "\n".join(
        ast.unparse(statement)
        for statement in node.body
        if not ast.unparse(statement).removeprefix("await ").startswith(unneeded)
        and not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
    )
    return f"{ast.unparse(node.args)} -> {ast.unparse(node.returns)}\n{text}"


def _as_sync(text: str) -> str:
    for asynchronous, sync in REPLACED:
        text = re.sub(asynchronous, sync, text)
    return text


def _plain(text: str) -> str:
    head, _, body = text.partition("\n")
    function = ast.parse("def one():\n" + "\n".join(f"    {line}" for line in body.split("\n")))
    return f"{head}\n{ast.unparse(_Plain().visit(function))}"


@each_row("pair", TWINS)
def test_a_sync_function_is_its_async_twin_without_what_is_awaited(pair):
    """A change of one of them is a change of the other."""
    module, _, names = pair.partition(": ")
    asynchronous, sync = (_function(module, name) for name in names.split())
    assert _plain(_body(sync, ONLY_SYNC)) == _plain(_as_sync(_body(asynchronous, ONLY_ASYNC)))
