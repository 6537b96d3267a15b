"""Cron schedules and time zones, by the rules of the real manager.

`parsing` reads a schedule, `fields` one of its five fields, `delays` the duration of
``@every``, `zones` a time zone. `cron` and `every` tell when a schedule is due next,
and `runs` which runs were missed. Nothing here awaits, and nothing knows an object of
the API: the cron job controller and the development cluster's validation use it.

Upstream: github.com/robfig/cron/v3 and Go's package time.
"""
