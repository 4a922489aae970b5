"""Tools to test bridge clients: virtual time, an embedded bridge, a breakable connection.

The client under test is the real one. Rule: each name is imported on first use, so that a test
imports only what it uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazily


if TYPE_CHECKING:
    from .at_most_once import assert_sent_at_most_once as assert_sent_at_most_once
    from .faults import Faults as Faults
    from .faults import ScriptedFault as ScriptedFault
    from .faulty_http import HTTPFault as HTTPFault
    from .faulty_http import HTTPServer as HTTPServer
    from .injection import PASS as PASS
    from .injection import Injection as Injection
    from .injection import inject as inject
    from .ledger import Judgement as Judgement
    from .ledger import Ledger as Ledger
    from .mcp_trap import Trap as Trap
    from .mcp_trap_ledger import TrapEffect as TrapEffect
    from .mcp_trap_plan import TrapStrike as TrapStrike
    from .proxy import FaultProxy as FaultProxy
    from .proxy_link import Fault as Fault
    from .recording import record as record
    from .server import BridgeServer as BridgeServer
    from .server_faults import Behaviour as Behaviour
    from .server_log_bridge import LogBridge as LogBridge
    from .simulation import simulate as simulate
    from .timeline import SimulationError as SimulationError
    from .virtual_clock import VirtualTime as VirtualTime
    from .worlds import disabled as disabled
    from .worlds import virtual_time as virtual_time

_NAMES = {
    "at_most_once": "assert_sent_at_most_once",
    "faults": "Faults ScriptedFault",
    "faulty_http": "HTTPFault HTTPServer",
    "injection": "inject Injection PASS",
    "ledger": "Judgement Ledger",
    "proxy": "FaultProxy",
    "proxy_link": "Fault",
    "recording": "record",
    "server": "BridgeServer",
    "server_faults": "Behaviour",
    "server_log_bridge": "LogBridge",
    "simulation": "simulate",
    "timeline": "SimulationError",
    "virtual_clock": "VirtualTime",
    "worlds": "disabled virtual_time",
}

# Listed by `rb.mcp`.
_INSIDE = {
    "mcp_trap": "Trap",
    "mcp_trap_ledger": "TrapEffect",
    "mcp_trap_plan": "TrapStrike",
}


if not TYPE_CHECKING:
    __all__, __dir__, __getattr__ = lazily(__name__, _NAMES, _INSIDE)
