"""What tests use of `resilient_bridge.calls` below its door."""

from __future__ import annotations

from tests.internals import lazily


__getattr__ = lazily(
    "resilient_bridge.calls",
    {
        "": "plan recommended registry strategies",
        "adaptive.machine": "Machine Ticket",
        "adaptive.state": "Limits",
        "adaptive.remote_limits": "RemoteLimits",
        "adaptive.shared_limits": "SharedLimits",
        "breaker": "circuit",
        "breaker.shared_circuit": "Permit SharedCircuit",
        "breaker.state": "CircuitState",
        "decision": "verdict_of",
        "frame": "CURRENT CallFrame",
        "hedge.state": "HedgeState",
        "layer": "Layer",
        "layer_order": "harmful",
        "layers": "GUARDS",
        "limits.guard": "RATES",
        "limits.state": "BULKHEADS MADE BulkheadState RateState",
        "outcome": "LIMIT",
        "plan": "Plan",
        "retry.budget_state": "BudgetState",
        "retry.coordination": "BUDGETS PAUSED",
        "shared": "CircuitAnswer CircuitView LimitProposal LimitShare RemoteLimitView SharedState",
        "share.state": "Answers Cached",
        "timeout.guard": "bound deadline_passed",
        "waits": "waited_for",
    },
)
