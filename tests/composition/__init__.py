"""What happens where parts meet: cancellation, closing, and the end of a program at any step."""
