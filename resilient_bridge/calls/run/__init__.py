"""The engine: a policy compiled for one function, the runners around it, and the retry loop.

Rule: no module here depends on what a layer does. The engine enters and exits layers, makes
attempts, and asks the Retry what follows.
"""
