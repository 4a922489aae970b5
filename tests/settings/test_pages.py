"""The settings shown in docs/how-to/configure-from-a-file.md are settings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import resilient_bridge as rb


PAGE = (Path(__file__).parents[2] / "docs/how-to/configure-from-a-file.md").read_text()
BLOCKS = re.findall(r"^```(toml|yaml)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("form", "text"), BLOCKS, ids=[form for form, _ in BLOCKS])
def test_each_block_of_settings_is_right(form, text, tmp_path, monkeypatch):
    """With the secret that it names set, and the functions that it names passed."""
    monkeypatch.setenv("BRIDGE_TOKEN", "t0p-secret")
    path = tmp_path / f"page.{form}"
    path.write_text(text)
    config = rb.load(path, names={"Busy": OSError, "reload": print, "find_payment": print})
    assert config.warnings == ()
    if "[effects]" in text:
        assert config.effects.hold == 600
    elif form == "toml":
        assert config.toolbox_arguments()["idempotent"] == ["search"]
        assert config.policies["search"].layers[0] == rb.Deadline(60)
