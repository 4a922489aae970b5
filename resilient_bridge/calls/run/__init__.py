"""The engine: a policy compiled for one function, the runners around it, and the loop that repeats it.

Rule: nothing here knows what a layer does; it enters and exits layers, makes attempts, and asks the Retry what follows.
"""
