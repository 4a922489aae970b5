"""The store in a SQLite file: one transaction for each change, a check of the file before it is opened, and copies of what was damaged."""
