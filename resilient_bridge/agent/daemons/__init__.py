"""Find, check or start a local daemon."""
