"""What tests use of `resilient_bridge.testing` below its door."""

from __future__ import annotations

from tests.internals import lazily


__getattr__ = lazily(
    "resilient_bridge.testing",
    {
        "": "ledger mcp_trap_ledger server_link server_listener shrinking virtual_clock",
        "faults": "FaultRun faults_GARBAGE=GARBAGE",
        "link": "Link RETRANSMIT",
        "loop": "SimulatedLoop",
        "mcp_trap_ledger": "repeats",
        "mcp_trap_plan": "ON_HTTP ON_STDIO Plan",
        "network": "HANG NXDOMAIN",
        "server_dialogue": "Dialogue",
        "server_faults": "GARBAGE",
        "server_link": "Tasks server_link_Link=Link",
        "server_replay": "Entry ReplayBuffer SeedBuffer ordered replay_frame",
        "server_session": "BridgeMemory",
        "server_wire": "FrameError Stamps decode new_id parse_instant violations",
        "shrinking": "AllowedOrders",
        "simulation": "Simulation",
        "timeline": "EPOCH SimDeadlock SimOverrun",
    },
)
