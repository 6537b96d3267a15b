"""The doctor: says before a swap what would not work, and why. It writes nothing.

``finding`` is the form of what a check says; ``running`` runs the checks, each with a
timeout of its own; ``report`` prints. ``examination`` has what checks examine, and
``reviews`` asks the API server what an identity may do.

The checks: ``server`` (does it answer, is its version served), ``controllers`` (what
does not start), ``resources`` (what the server lacks), ``rights`` (of the manager
itself), ``accounts`` (of the controllers), ``endpoints`` (who may read them),
``keys`` (files), ``leases`` (who leads), ``pods`` (who makes this pod), and
``checks`` lists them. What controllers need is in their descriptors: nothing here
knows a particular controller.
"""
