"""Retry: the values `Retry` and `RetryBudget`, the decision about a failed call, its repeats, and what they share."""
