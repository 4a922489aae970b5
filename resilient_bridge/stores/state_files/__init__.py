"""State documents in files: their form, versions and copies, and the choice of the copy to read."""
