"""Child processes: their lines, how they and their descendants are ended, and our own standard streams."""
