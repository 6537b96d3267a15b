"""Tests, in packages that mirror the project's."""

import os

# Schedules without a zone are meant in the machine's, and recordings were made in UTC.
os.environ["TZ"] = "UTC"
