"""Whole journeys of one client through the simulated network: what a user sees, row by row."""
