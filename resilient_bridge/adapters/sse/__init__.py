"""Streams of server-sent events that resume after the last event received: `EventSource`."""
