"""The runtime of all controllers.

``descriptor`` and ``permissions`` describe a controller. ``reconciler`` and
``watches`` are the form that most controllers have; ``handlers`` turn changes of
objects into keys. ``worker`` is the one loop that takes keys, waits until the caches
show the last write (``consistency``), calls a reconcile and maps its ``outcome`` to
the queue. ``context`` is what a controller receives. Nothing here may know a
particular controller.
"""
