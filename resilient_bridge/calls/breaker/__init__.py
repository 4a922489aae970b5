"""Circuit breaker: the value that users write, a circuit's state, and the layer that uses it."""
