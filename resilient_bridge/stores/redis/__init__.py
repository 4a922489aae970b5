"""The durable store in Redis: each write is one script, and lost data is written again."""
