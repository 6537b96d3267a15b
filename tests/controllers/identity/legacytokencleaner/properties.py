"""Properties of the cleaner of legacy tokens."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

from controller_manager.api.core.secrets import ACCOUNT_NAME, SERVICE_ACCOUNT_TOKEN
from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import parse_day, parse_time
from controller_manager.controllers.identity.legacytokencleaner import (
    LegacyTokenCleanerOptions,
)
from controller_manager.controllers.identity.legacytokencleaner.controller import (
    INVALID_SINCE,
    LAST_USED,
)
from controller_manager.options.config import Config
from tests.controllers.identity.legacytokencleaner.workload import (
    PERIOD,
    LegacyTokenUsers,
)
from tests.simulation.changes import only
from tests.simulation.properties import AllowedWrite, Properties, Write


class LegacyTokenCleanerProperties(Properties):
    """It marks and deletes tokens that their account lists, and no others."""

    controller = "legacy-serviceaccount-token-cleaner-controller"
    may_write = (
        AllowedWrite(("patch",), "secrets", only(("metadata", "labels"))),
        AllowedWrite(("delete",), "secrets"),
    )
    workload = LegacyTokenUsers

    @classmethod
    def configured(cls, config: Config) -> Config:
        """Have tokens unused after two minutes, not after a year."""
        options = LegacyTokenCleanerOptions(clean_up_period=PERIOD)
        controllers = {**config.controllers, LegacyTokenCleanerOptions: options}
        return replace(config, controllers=controllers)

    def after_write(self, write: Write) -> Iterator[str]:
        """Check that only marked tokens are deleted, and only listed ones marked."""
        before = write.before
        if write.controller != self.controller or before is None:
            return
        metadata = before["metadata"]
        if before.get("type") != SERVICE_ACCOUNT_TOKEN:
            yield f"{write}: it is no token"
            return
        name = metadata["annotations"][ACCOUNT_NAME]
        account = self.state.find("serviceaccounts", metadata["namespace"], name)
        listed = (account or {}).get("secrets", [])
        if not write.is_late and metadata["name"] not in (n["name"] for n in listed):
            yield f"{write}: no account lists it"
        mark = metadata.get("labels", {}).get(INVALID_SINCE, "")
        if write.verb == "delete" and parse_day(mark) is None:
            yield f"{write}: it was never marked as invalid"
        if not write.is_late and self._is_used(metadata):
            yield f"{write}: it was used, or is new"

    def _is_used(self, metadata: JSON) -> bool:
        """Tell whether a token is needed by what the API server knows."""
        since = self.state.server.objects.clock.now() - timedelta(seconds=PERIOD)
        if parse_time(metadata["creationTimestamp"]) > since:
            return True
        used = parse_day(metadata.get("labels", {}).get(LAST_USED, ""))
        return used is not None and used >= since.date()


PROPERTIES = LegacyTokenCleanerProperties
