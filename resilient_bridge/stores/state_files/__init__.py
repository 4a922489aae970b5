"""Documents of state in files: their form, their versions, their copies, and which of them is read."""
