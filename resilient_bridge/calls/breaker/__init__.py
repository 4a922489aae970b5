"""Circuit breaker: the value that users write, the state of a circuit, and the layer that uses it."""
