"""Circuits and budgets that several processes share.

The interface of a store, and the steps of a call that wait for it.
"""
