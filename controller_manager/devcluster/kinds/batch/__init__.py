"""The kinds of the group batch, one file each.

Kinds: ``cronjob``, ``job``. Shared: ``cronjob_validation`` (specs),
``job_spec_validation`` (specs), ``job_update_validation`` (immutable fields),
``job_status_validation`` (statuses), ``job_indexes_validation`` (indexes in a status),
``job_policies`` (failure and success policies), ``job_selector`` (generated labels),
``job_spec_defaults`` (conditions of policies), ``job_status_change`` (old and new
status), ``index_intervals`` (texts such as 0-2,5).
"""
