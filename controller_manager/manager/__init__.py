"""The manager: groups of runnables, and the order in which they start and stop.

All parts are runnables (see ``runnable``): they run, stop, and say whether they are
healthy and ready. Nothing here knows a particular controller.
"""
