"""The tests, laid out as the package is. Rule: a test's docstring states the fact that it proves."""
