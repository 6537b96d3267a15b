"""Cores that several controllers share.

``claims`` adopts and releases objects, ``expectations`` counts writes that the cache
does not show yet, ``pod_control`` creates and deletes pods, ``slow_start`` limits
bursts, ``takeover`` protects against the last writes of a former leader, ``decision``
is the form of a decision, ``gates`` has feature gates, ``replicas`` keeps a number
of pods running, ``namespaces`` serves controllers that create an object in every
namespace, ``history`` keeps controller revisions, ``stale_syncs`` is a metric,
``hashes`` has the hashes of generated names, ``owner_reads`` reads what a stale cache
may not show, ``scale`` reads and updates the scale of any kind, ``scheduling`` tells
which pod may run on which node, ``endpoints`` which pods back which services,
``quota`` what objects are charged for, and ``root_authority`` whether there is an
authority to publish. No module here knows a particular controller.
"""
