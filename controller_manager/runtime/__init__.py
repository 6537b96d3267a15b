"""The runtime of all controllers.

Nothing here may know a particular controller.
"""
