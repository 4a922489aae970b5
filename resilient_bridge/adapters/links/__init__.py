"""Clients that a factory creates again when their connection is lost: `reconnecting`."""
