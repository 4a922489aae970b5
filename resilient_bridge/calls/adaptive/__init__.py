"""AdaptiveLimit: how many calls run at once is learnt from what the server refuses."""
