"""The errors of schedules and time zones."""


class ScheduleError(ValueError):
    """A schedule that cannot be parsed; the message is upstream's."""


class ZoneError(ValueError):
    """A time zone that does not exist; the message is upstream's."""
