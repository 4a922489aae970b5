"""Circuits and budgets that several processes share: the interface of a store, and the steps of a call that wait for it."""
