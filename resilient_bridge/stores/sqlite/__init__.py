"""The store in a SQLite file: checked before it is opened, written in transactions."""
