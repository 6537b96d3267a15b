"""The rules for how a group of pods is scheduled."""

from typing import Final

from controller_manager.devcluster.validation.text import table

SCHEDULING_POLICY: Final = table(
    """
    basic: required at self if lacks basic gang
      "must specify one of: `basic`, `gang`"
    self: invalid if has basic and has gang
      "must specify exactly one of: `basic`, `gang`"
    when lacks basic:
      gang:
        minCount: at-least 1 default 0 "must be greater than zero"
    """
)
