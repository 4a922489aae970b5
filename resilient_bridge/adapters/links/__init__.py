"""Connections that die and are made again from a factory: `reconnecting`."""
