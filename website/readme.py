"""The README as a package index shows it: no link of it is relative. A build hook (hatch_build.py) calls this.

Rule: no address is invented. Without one the text of a link stays and the link goes; with one it is put before each link.
"""

from __future__ import annotations

import re

from .links import LINK, prose


ELSEWHERE = "The pages that are named here are in the source distribution of this version, and in a clone: docs/, examples/.\n\n"


def packaged(text: str, address: str | None = None) -> str:
    """Return the README with every relative link made absolute (`address` ends in a slash), or taken out, with a line that says where the pages are."""

    def link(found: re.Match[str]) -> str:
        if "://" in found["target"]:
            return found.group()
        return f"{found[1]}({address}{found['target']})" if address else found["text"]

    moved = "".join(LINK.sub(link, part) if is_prose else part for is_prose, part in prose(text))
    if address:
        return moved
    head, mark, rest = moved.partition("\n\n")
    return f"{head}{mark}{ELSEWHERE}{rest}"
