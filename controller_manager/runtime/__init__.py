"""The runtime of all controllers.

``descriptor`` and ``permissions`` describe a controller. ``reconciler`` and
``watches`` are the form that most controllers have; ``handlers`` turn changes of
objects into keys. ``worker`` is the one loop that takes keys, calls a reconcile and
maps its ``outcome`` to the queue. ``consistency`` knows which keys have to wait until
the caches show their last writes. ``context`` is what a controller receives. Nothing
here may know a particular controller.
"""
