"""Which kind of link a dialect needs; each is loaded when it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from .join import LinkParts
    from .link import AnyLink


def link_of(parts: LinkParts) -> AnyLink:
    """Make the link of one connection."""
    if parts.dialect.decode is None:
        from .envelope_link import EnvelopeLink

        return EnvelopeLink(parts)
    from .fact_link import FactLink

    return FactLink(parts)
