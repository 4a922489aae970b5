"""Circuits and budgets that several processes share: the interface of a store."""
