"""What a person or a model can do about an error: rules over the error and its context."""
