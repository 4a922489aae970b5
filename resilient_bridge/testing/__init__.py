"""What tests of bridge clients use: the real client in virtual time, an embedded bridge, a line that can be broken.

Rule: each name loads when it is first asked for, so that a test pays for what it uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazily


if TYPE_CHECKING:
    from .at_most_once import assert_sent_at_most_once as assert_sent_at_most_once
    from .faults import Faults as Faults
    from .faults import ScriptedFault as ScriptedFault
    from .faulty_http import HTTPFault as HTTPFault
    from .injection import PASS as PASS
    from .injection import Injection as Injection
    from .injection import inject as inject
    from .ledger import Judgement as Judgement
    from .ledger import Ledger as Ledger
    from .proxy import Fault as Fault
    from .proxy import FaultProxy as FaultProxy
    from .recording import record as record
    from .server import BridgeServer as BridgeServer
    from .server_faults import Behaviour as Behaviour
    from .simulation import simulate as simulate
    from .timeline import SimulationError as SimulationError
    from .virtual_clock import VirtualTime as VirtualTime
    from .worlds import disabled as disabled
    from .worlds import virtual_time as virtual_time

__all__ = [
    "PASS",
    "Behaviour",
    "BridgeServer",
    "Fault",
    "FaultProxy",
    "Faults",
    "HTTPFault",
    "Injection",
    "Judgement",
    "Ledger",
    "ScriptedFault",
    "SimulationError",
    "VirtualTime",
    "assert_sent_at_most_once",
    "disabled",
    "inject",
    "record",
    "simulate",
    "virtual_time",
]

_HOMES = {
    "assert_sent_at_most_once": "at_most_once",
    "PASS": "injection",
    "Injection": "injection",
    "VirtualTime": "virtual_clock",
    "disabled": "worlds",
    "inject": "injection",
    "record": "recording",
    "virtual_time": "worlds",
    "Behaviour": "server_faults",
    "BridgeServer": "server",
    "Fault": "proxy",
    "FaultProxy": "proxy",
    "Faults": "faults",
    "ScriptedFault": "faults",
    "HTTPFault": "faulty_http",
    "Judgement": "ledger",
    "Ledger": "ledger",
    "SimulationError": "timeline",
    "simulate": "simulation",
}


if not TYPE_CHECKING:  # a checker that saw it would believe every misspelt name
    __getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
