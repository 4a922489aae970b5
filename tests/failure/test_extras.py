"""A package that is not installed is named with the command that installs it, by every way that leads to it."""

from __future__ import annotations

import ast
import asyncio
import re
import sys
import tomllib
from pathlib import Path

import pytest

import resilient_bridge as rb
from tests.internals.failure import EXTRAS, how_to_install, needed


ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ALWAYS = {"attr", "attrs", "httpx", "tenacity", "websockets", "wrapt"}


def _redis_store():
    rb.stores.RedisStore("redis://127.0.0.1:1/0")._link.open()


def _redis_state():
    state = rb.stores.RedisState("redis://127.0.0.1:1/0")
    rb.Policy(rb.Breaker(key="extras"), state=state)(lambda: None)


def _yaml(tmp_path):
    path = tmp_path / "settings.yaml"
    path.write_text("policies: {}\n")
    rb.load(path)


def _otel():
    from resilient_bridge.exporters import otel

    otel.install()


def _prometheus():
    from resilient_bridge.exporters import prometheus

    prometheus.install()


def _mcp():
    async def serve():
        async with rb.mcp.serve_sidecar(rb.mcp.Sidecar(command=["no-such-server"]), token=None):
            pass

    asyncio.run(serve())


USES = {
    "mcp": [lambda _: _mcp()],
    "opentelemetry": [lambda _: _otel()],
    "prometheus_client": [lambda _: _prometheus()],
    "redis": [lambda _: _redis_store(), lambda _: _redis_state()],
    "yaml": [_yaml],
    "orjson": [
        lambda _: __import__("resilient_bridge.protocol.frames", fromlist=["x"]).Encoder("orjson")
    ],
}


@pytest.mark.requirement("X12")
@pytest.mark.parametrize(
    ("module", "use"),
    [(module, use) for module, uses in USES.items() for use in uses],
    ids=lambda value: str(value)[:20],
)
def test_the_command_that_installs_it_is_named(module, use, monkeypatch, tmp_path):
    """ConfigError, with pip's own words, whoever needs the package."""
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    from tests.internals.config import documents

    documents._loader.cache_clear()
    with pytest.raises(rb.ConfigError) as caught:
        use(tmp_path)
    documents._loader.cache_clear()
    assert how_to_install(module) in str(caught.value)
    assert "pip install 'resilient-bridge[" in str(caught.value)


def test_each_extra_is_one_of_the_project():
    """What is named can be installed, and has the package; each extra that users install is in the table."""
    extras = PROJECT["optional-dependencies"]
    for package, extra in EXTRAS.values():
        assert any(line.startswith(package) for line in extras[extra])
    assert set(USES) == set(EXTRAS)
    ours = {extra for _, extra in EXTRAS.values()}
    assert ours == set(extras) - {"test", "bench", "dev"}
    page = (ROOT / "docs/reference/platforms.md").read_text()
    assert (
        set(re.findall(r"^\| `pip install 'resilient-bridge\[(\w+)\]'` \|", page, re.MULTILINE))
        == ours
    )


PAGES = {
    "mcp": ["keep-an-mcp-server-alive"],
    "otel": ["traces"],
    "prometheus": ["metrics", "alerts"],
    "redis": ["keep-messages-in-redis", "share-circuits-between-processes"],
    "yaml": ["configure-from-a-file"],
}


@pytest.mark.parametrize(
    ("extra", "page"), [(extra, page) for extra in PAGES for page in PAGES[extra]]
)
def test_a_page_that_needs_an_extra_says_so_at_its_top(extra, page):
    """The line that installs it stands above the first heading after the title, and in prose or a shell block."""
    text = (ROOT / f"docs/how-to/{page}.md").read_text().partition("\n## ")[0]
    before = text.partition("```python")[0].partition("```toml")[0]
    assert f"pip install 'resilient-bridge[{extra}]'" in before


def test_a_package_without_an_extra_is_named_too():
    """By its own name."""
    with pytest.raises(
        rb.ConfigError, match="HTTPAdapter: wanted the package no_such: pip install 'no_such'"
    ):
        needed("no_such.adapters", "HTTPAdapter")


def test_what_a_package_itself_lacks_is_named_in_its_words(monkeypatch, tmp_path):
    """Only the package that was asked for is missing: anything else is an installation that is broken."""
    (tmp_path / "halfway.py").write_text("import no_such_module_below")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_module_below"):
        needed("halfway", "x")


def test_no_extra_is_imported_without_it():
    """Outside of TYPE_CHECKING every import of an extra goes through `needed`, or stands behind it."""
    found = []
    for path in sorted((ROOT / "resilient_bridge").rglob("*.py")):
        text = path.read_text()
        if "mcp" in text and path.is_relative_to(ROOT / "resilient_bridge/adapters/sidecar"):
            continue  # what needs it there stands behind front_http, which asks
        if not any(module in text for module in EXTRAS):
            continue
        typing_only = [
            (node.lineno, node.end_lineno)
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        ]
        for node in ast.walk(ast.parse(text)):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += (
                [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            )
            if {name.partition(".")[0] for name in names} & set(EXTRAS) and not any(
                first <= node.lineno <= last for first, last in typing_only
            ):
                found.append(
                    (path.relative_to(ROOT), "needed(" in text or "how_to_install(" in text)
                )
    assert all(is_asked for _, is_asked in found), found
