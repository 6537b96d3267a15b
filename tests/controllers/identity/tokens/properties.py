"""Properties of the controller of token secrets."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import jwt

from controller_manager.api.core.secrets import (
    ACCOUNT_NAME,
    ACCOUNT_UID,
    SERVICE_ACCOUNT_TOKEN,
)
from controller_manager.api.json_objects import JSON
from controller_manager.controllers.identity.tokens import TokensOptions
from controller_manager.controllers.identity.tokens.controller import UID_CLAIM
from controller_manager.options.config import Config
from tests.controllers.identity.tokens.keys import elliptic_key, key_file
from tests.controllers.identity.tokens.workload import ROBOTS, TokenUsers, is_filled
from tests.simulation.changes import Path, only
from tests.simulation.properties import AllowedWrite, Properties, Write

if TYPE_CHECKING:
    from tests.simulation.managers import Manager


_ANNOTATIONS: Final = ("metadata", "annotations")
_FILLED: Final[tuple[Path, ...]] = (("data", "namespace"), ("data", "token"))


def _fills(path: Path, old: Any, new: Any) -> bool:
    """Allow the three values and the annotations; a token is never replaced."""
    if path in _FILLED:
        return not old and bool(new)
    if path == ("data",):
        return not old
    return only(
        ("data", "ca.crt"),
        (*_ANNOTATIONS, ACCOUNT_NAME),
        (*_ANNOTATIONS, ACCOUNT_UID),
    )(path, old, new)


class TokensProperties(Properties):
    """It fills and deletes token secrets, and takes entries off accounts' lists."""

    controller = "serviceaccount-token-controller"
    may_write = (
        AllowedWrite(("update",), "secrets", _fills),
        AllowedWrite(("delete",), "secrets"),
        AllowedWrite(("update",), "serviceaccounts", only(("secrets",))),
    )
    workload = TokenUsers

    @classmethod
    def configured(cls, config: Config) -> Config:
        """Give the controller a key; without one it does not run."""
        options = TokensOptions(private_key_file=key_file())
        return replace(
            config, controllers={**config.controllers, TokensOptions: options}
        )

    def after_write(self, write: Write) -> Iterator[str]:
        """Check that only secrets of no account are deleted, and which token is new."""
        before = write.before
        if write.controller != self.controller or write.target.plural != "secrets":
            return
        if before is not None and before.get("type") != SERVICE_ACCOUNT_TOKEN:
            yield f"{write}: it is no token secret"
        elif write.verb == "delete" and before is not None:
            if self._has_account(before) and not write.is_late:
                yield f"{write}: its account exists"
        elif write.after is not None and not _is_valid(write.after):
            yield f"{write}: the token is not that of the account"

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """Check that each token secret has the token of an account that exists."""
        del managers
        for secret in self.state.stored("secrets"):
            if secret.get("type") != SERVICE_ACCOUNT_TOKEN:
                continue
            metadata = secret["metadata"]
            name = f"{metadata['namespace']}/{metadata['name']}"
            if not self._has_account(secret):
                yield f"the secret {name} is kept for an account that is gone"
            elif not is_filled(secret):
                yield f"the secret {name} is not filled"
            elif not _is_valid(secret):
                yield f"the secret {name} has the token of another account"

    def end_state(self) -> JSON:
        """Return the users' token secrets with their data."""
        return {
            each["metadata"]["name"]: sorted(each.get("data", {}))
            for each in self.state.stored("secrets", ROBOTS)
        }

    def _has_account(self, secret: JSON) -> bool:
        metadata = secret["metadata"]
        wanted = metadata["annotations"]
        account = self.state.find(
            "serviceaccounts", metadata["namespace"], wanted[ACCOUNT_NAME]
        )
        if account is None:
            return False
        return wanted.get(ACCOUNT_UID) in (None, "", account["metadata"]["uid"])


def _is_valid(secret: JSON) -> bool:
    """Tell whether the signed token of a secret is for its annotated account."""
    uid = secret["metadata"]["annotations"].get(ACCOUNT_UID)
    return bool(uid) and _claims(secret).get(UID_CLAIM) == uid


def _claims(secret: JSON) -> JSON:
    """Return the claims of a secret's token, none if the key has not signed it."""
    token = jwt.utils.base64url_decode(
        secret.get("data", {}).get("token", "").replace("+", "-").replace("/", "_")
    )
    try:
        return jwt.decode(token, elliptic_key().public_key(), algorithms=["ES256"])
    except jwt.InvalidTokenError:
        return {}


PROPERTIES = TokensProperties
