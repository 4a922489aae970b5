"""What tests use of `resilient_bridge.cli` below its door."""

from __future__ import annotations

from tests.internals import lazily


__getattr__ = lazily(
    "resilient_bridge.cli",
    {
        "": "demo demo_mcp mcp_http mcp_install options pipe pipe_events printing report terminal",
        "classify": "read",
        "commands": "parser",
        "demo": "Watch",
        "demo_table": "COLOURS SUCCESS SUCCESS_OF_CALLS Call Outage Screen line score_of_calls score_of_messages",
        "demo_mcp": "totals",
        "dialects": "forms_of read_dialect read_served",
        "doctor_findings": "conclude",
        "doctor_journal": "Entry Probe Reading",
        "doctor_mcp": "FOUND_OUT NOT_STARTED RISKS seconds_of",
        "doctor_mcp_http": "examine_url",
        "doctor_mcp_page": "Page",
        "doctor_promise": "notes_of promise_of",
        "doctor_rows": "Row data_of rows_of table_of",
        "doctor_steps": "Limits examine",
        "doctor_taps": "Journal",
        "mcp_config": "CLIENTS _name_of",
        "mcp_options": "EXAMPLES sidecar_of",
        "options": "FAULTS KILLS",
        "pipe_events": "line_of",
        "pipe_lines": "Outgoing parse_line print_message",
        "pipe_receipts": "Receipts",
        "plot": "bars svg",
        "printing": "USAGE",
        "progress": "Progress",
        "schedules": "read_schedule",
        "terminal": "columns fitted is_coloured",
    },
)
