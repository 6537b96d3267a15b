"""Tests, in packages that mirror the project's."""

import os

# Schedules without a zone are meant in the machine's, and recordings were made in UTC.
os.environ["TZ"] = "UTC"

# A controller that reads a field which it has not declared fails its tests.
os.environ["CONTROLLER_MANAGER_STRICT_READS"] = "true"
