"""Cron schedules and time zones, by the rules of the real manager.

``parsing`` reads a schedule, ``fields`` one of its five fields, ``delays`` the duration
of ``@every``, ``zones`` a time zone. ``cron`` and ``every`` find the next run of a
schedule, ``runs`` finds missed runs. ``wall_clock`` moves a time by the calendar of a
zone, ``quoting`` quotes text as Go does, ``errors`` has the exceptions. No module
awaits, and none knows an object of the API: the cron job controller and the validation
of the development cluster use them.

Upstream: github.com/robfig/cron/v3 and Go's package time.
"""
