"""The store in Redis: each change is one script, and what the store knows is written again after Redis has lost it."""
