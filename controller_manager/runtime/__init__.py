"""What all controllers run on.

``descriptor`` and ``permissions`` say what a controller is. ``reconciler`` and
``watches`` are the form that most of them have; ``handlers`` turn changes into keys.
``worker`` is the one loop that takes keys, waits until the caches show what was
written last (``consistency``), calls a reconcile and maps its ``outcome`` to the
queue. ``context`` is what a controller receives. Nothing here may know a particular
controller.
"""
