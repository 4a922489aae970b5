"""Share: the value, the answers that are remembered, and the call that several callers share."""
