"""What the cleaner of legacy tokens promises."""

from collections.abc import Iterator

from controller_manager.api.core.secrets import ACCOUNT_NAME, SERVICE_ACCOUNT_TOKEN
from controller_manager.controllers.identity.legacytokencleaner.verdict import (
    INVALID_SINCE,
    parse_day,
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


PROPERTIES = LegacyTokenCleanerProperties
