"""Workflows in phases that survive crashes, damaged files and failures.

A finished phase never runs again, and losses are reported.

Rule: `checkpoint` and `journal` are pure values; `runner` acts, through `workflow_file` and
`artifacts`.
"""
