"""The kind Job.

- ``strategy``: has the ``KIND``.
- ``spec_defaults``, ``spec_validation``, ``update_validation`` (immutable fields),
  ``selector`` (generated labels), ``policies`` (failure and success).
- ``status_validation``, ``status_change`` (old and new status),
  ``indexes_validation``, ``index_intervals`` (texts such as 0-2,5).
"""
