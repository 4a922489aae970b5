"""Circuits and budgets that several processes share: what a store has to offer, and the strategies that ask it."""
