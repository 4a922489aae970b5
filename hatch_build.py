"""The build hook of hatchling: the long description is the README with links that work on a package index. docs/design/0015 says why."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class CustomMetadataHook(MetadataHookInterface):
    """Sets `readme`, which pyproject.toml declares as dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Read README.md and take it to where it is shown."""
        sys.path.insert(0, self.root)
        try:
            from website.readme import packaged
        finally:
            sys.path.remove(self.root)
        text = packaged((Path(self.root) / "README.md").read_text(encoding="utf-8"))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
