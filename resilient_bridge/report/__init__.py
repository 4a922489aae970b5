"""An incident as one page: an event log, aggregated in bounded memory, then drawn.

Rule: three separate steps. `lines` reads a line, `incident` and its parts count, `page` and
`summary` show. None of them opens a file or reads a clock; the command does.
"""

from __future__ import annotations

from .incident import Incident
from .lines import Damage, Record, read_line
from .page import page
from .summary import as_data, as_text


__all__ = ["Damage", "Incident", "Record", "as_data", "as_text", "page", "read_line"]
