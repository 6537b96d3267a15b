"""The flag of the cleaner of legacy tokens."""

from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.durations import parse_duration
from controller_manager.options.flag import Flag


def _positive(value: str) -> str:
    """Check that a duration is more than zero."""
    return "" if parse_duration(value) > 0 else f"must be more than 0s, it is {value}"


class LegacyTokenCleanerOptions(ControllerOptions):
    """The period in seconds for which a token must be unused."""

    clean_up_period: float = option(
        Flag(
            "legacy-service-account-token-clean-up-period",
            "duration",
            "8760h0m0s",
            "The time since the last use after which a legacy token is marked as "
            "invalid, and after as long again deleted.",
            "LegacySATokenCleaner.CleanUpPeriod",
            check=_positive,
        )
    )
