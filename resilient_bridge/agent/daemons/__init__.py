"""A local daemon: found, checked, or started."""
