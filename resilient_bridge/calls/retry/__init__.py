"""Retry: the values `Retry` and `RetryBudget`, the decision, the repeats, and the shared state."""
