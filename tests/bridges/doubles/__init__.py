"""Scripted servers that speak as real WebSocket systems do, on plain asyncio and without a network.

Rule: written from the protocols alone; nothing of the package is imported here, and no double knows its client.
Each runs in real time and under a virtual clock: time is the loop's, chance is the `random.Random` it gets.
"""
