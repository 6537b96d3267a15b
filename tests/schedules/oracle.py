"""A slow and simple search for the next run: it tries minute after minute."""

from datetime import UTC, datetime, timedelta, tzinfo

MINUTE = timedelta(minutes=1)


def next_after(
    text: str, zone: tzinfo, moment: datetime, limit: timedelta
) -> datetime | None:
    """Return the first whole minute after `moment` whose wall clock matches.

    `text` has five fields of single numbers, ranges, stars and steps, without
    names. `None` if no minute before `moment` plus `limit` matches.
    """
    minutes, hours, days, months, weekdays = text.split()
    both_days = days == "*" or weekdays == "*"
    minute = moment.astimezone(UTC).replace(second=0, microsecond=0) + MINUTE
    while minute < moment + limit:
        wall = minute.astimezone(zone)
        of_month = _allows(days, wall.day, 31)
        of_week = _allows(weekdays, wall.isoweekday() % 7, 6)
        if (
            (of_month and of_week if both_days else of_month or of_week)
            and _allows(months, wall.month, 12)
            and _allows(hours, wall.hour, 23)
            and _allows(minutes, wall.minute, 59)
        ):
            return minute
        minute += MINUTE
    return None


def _allows(field: str, number: int, highest: int) -> bool:
    return any(_part_allows(part, number, highest) for part in field.split(","))


def _part_allows(part: str, number: int, highest: int) -> bool:
    whole, _, step = part.partition("/")
    if whole == "*":
        # The fields of days of the month and of months start at 1.
        low, high = (1 if highest in (31, 12) else 0), highest
    else:
        first, _, last = whole.partition("-")
        low, high = int(first), int(last or first)
        if step and not last:
            high = highest
    return low <= number <= high and (number - low) % int(step or 1) == 0
