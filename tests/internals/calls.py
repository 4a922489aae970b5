"""What tests use of `resilient_bridge.calls` below its door."""

from __future__ import annotations

from tests.internals import lazily


__getattr__ = lazily(
    "resilient_bridge.calls",
    {
        "": "registry",
        "breaker": "circuits handle",
        "breaker.shared_circuit": "Permit SharedCircuit",
        "breaker.state": "CircuitState",
        "breaker.verdict": "verdict_of",
        "bulkhead.state": "BULKHEADS MADE BulkheadState",
        "frame": "CURRENT CallFrame",
        "layer": "Layer",
        "layer_order": "harmful",
        "outcome_text": "LIMIT",
        "rate_limit.state": "RATES RateState",
        "retry.budget_state": "BudgetState",
        "retry.budgets": "BUDGETS",
        "plan": "Plan",
        "retry.pause": "PAUSED",
        "shared.ports": "CircuitAnswer CircuitView SharedState",
        "shared.waits": "waited_for",
    },
)
