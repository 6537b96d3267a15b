"""The preview (``--preview``): controllers that run and write nothing.

A transport answers each write from an overlay, so that decisions follow as if it had
happened. When the manager in charge makes the same write, it is confirmed and
forgotten. A write that is not confirmed after a grace time is a divergence.

- ``preview`` has all parts together; ``settings`` has their settings.
- ``transport`` answers the requests of one controller; ``target`` is what a request is
  about.
- ``reading`` and ``streams`` put the overlay on top of reads and watches; ``versions``
  are the resource versions of this view.
- ``writing`` does with a write what the API server would do; ``defaults`` completes new
  objects, ``patches`` applies patches, ``dry_run`` asks admission, of the ``servers``
  that honour it, ``answers`` are the answers.
- ``overlay`` holds the ``entry`` of each object with unconfirmed writes, in its
  ``entries``, and compares them with the server; ``creations`` finds the objects of the
  server that match those that the preview has created. ``changes`` passes the changes
  to watches, and the ``ledger`` remembers the creations and deletions on the server
  that no write has matched.
- ``fields`` are the fields in which two objects differ; ``contents`` says which of them
  count.
- ``siblings`` tells whether both managers knew the same objects of an owner.
- ``absentees`` finds the traces of controllers that run only in the manager in charge.
- ``in_charge`` takes the flags that decide from the pod of the manager in charge.
- ``judge`` finds divergences, ``findings`` counts them, ``report`` shows them.

Nothing here knows a controller or the manager.
"""
