"""The incident report: an event log is aggregated in bounded memory and shown as one page.

Rule: there are three separate steps. `lines` parses a line, `incident` and its parts count, `page`
and `summary` show the result. None of them opens a file or reads a clock; the command does.
"""

from __future__ import annotations

from .incident import Incident
from .lines import Damage, Record, read_line
from .page import page
from .summary import as_data, as_text


__all__ = ["Damage", "Incident", "Record", "as_data", "as_text", "page", "read_line"]
