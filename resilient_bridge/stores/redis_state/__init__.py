"""Circuits, retry budgets and adaptive limits in Redis, shared between processes."""
