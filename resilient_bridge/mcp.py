"""For MCP: a relay that keeps a server alive, and a server that finds calls which are repeated blindly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy_names import lazily


if TYPE_CHECKING:
    from .adapters.sidecar.options import Sidecar as Sidecar
    from .adapters.sidecar.serving import run_sidecar as run_sidecar
    from .adapters.sidecar.serving import serve_sidecar as serve_sidecar
    from .testing.mcp_trap import Trap as Trap
    from .testing.mcp_trap_ledger import TrapEffect as TrapEffect
    from .testing.mcp_trap_plan import TrapStrike as TrapStrike

_NAMES = {
    ".adapters.sidecar.options": "Sidecar",
    ".adapters.sidecar.serving": "run_sidecar serve_sidecar",
    ".testing.mcp_trap": "Trap",
    ".testing.mcp_trap_ledger": "TrapEffect",
    ".testing.mcp_trap_plan": "TrapStrike",
}


if not TYPE_CHECKING:
    __all__, __dir__, __getattr__ = lazily(__name__, _NAMES)
