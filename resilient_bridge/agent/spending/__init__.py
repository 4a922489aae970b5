"""Spend budgets: limits on money, and the account of what was spent."""
