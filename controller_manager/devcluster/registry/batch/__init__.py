"""The kinds of the group batch: ``cronjob`` and ``job``.

``cronjob_validation`` checks the specs of cron jobs.
"""
