"""What all controllers run on: the worker loop and what it is given.

Here live the one loop that takes keys, calls a controller's reconcile and maps
the outcome to the queue; and the context that a controller's init function
receives. Nothing here may know a particular controller or resource.
"""
