"""Cron schedules and time zones, by the rules of the real manager.

No module awaits, and none knows an object of the API: the cron job controller and the
validation of the development cluster use them. Upstream: github.com/robfig/cron/v3 and
Go's package time.
"""
