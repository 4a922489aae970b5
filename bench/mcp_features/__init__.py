"""A server of many features, a client that validates nothing, and what of the one arrives at the other: for benchmarks and tests."""
