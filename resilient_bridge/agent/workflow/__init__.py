"""Work in phases that survives crashes, damage and failures: what is finished is never done again, and nothing ends silently.

Rule: `checkpoint` knows and decides nothing of the world; `runner` acts; `workflow_file` and `artifacts` are its hands.
"""
