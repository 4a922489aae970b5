"""An incident as one page: what a log of events says, aggregated in bounded memory, then drawn.

Rule: three steps that do not mix. `lines` reads a line, `incident` and what it consists of count, `page` and `summary` show. None of them
opens a file or asks the time; the command does.
"""

from __future__ import annotations

from .incident import Incident
from .lines import Damage, Record, read_line
from .page import page
from .summary import as_data, as_text


__all__ = ["Damage", "Incident", "Record", "as_data", "as_text", "page", "read_line"]
