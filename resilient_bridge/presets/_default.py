"""What we recommend when nothing is known about the server: spread out, patient, and honest about the outage."""

from __future__ import annotations

from .bridge_policy import BridgePolicy


default = BridgePolicy()
"""Decorrelated waits from 1 to 30 s that never end; after 5 failed attempts or 5 minutes the user is told.

Heartbeat 15 + 10 s; 1,000 messages or 8 MiB each way; resends within 270 s of the 5-minute window.
"""
