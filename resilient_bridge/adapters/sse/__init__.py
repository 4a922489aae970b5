"""Streams of server-sent events that resume where they broke: `EventSource`."""
