"""Deliberate bugs of the controller of token secrets."""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec.structs import replace

from controller_manager.api.core.secrets import Secret, encoded
from controller_manager.api.core.v1 import ServiceAccount
from controller_manager.controllers.identity.tokens import controller, secrets
from controller_manager.controllers.identity.tokens.controller import TokensReconciler
from tests.simulation.planted import Bug

_completed = secrets.completed


def _is_for_the_name(secret: Secret, account: ServiceAccount) -> bool:
    return account.metadata.name == secrets.account_name(secret)


async def _believe_the_cache(
    controller: TokensReconciler, secret: Secret
) -> ServiceAccount | None:
    name = secrets.account_name(secret)
    cached = controller._accounts.get(secret.metadata.namespace, name)
    return cached if cached is not None and secrets.is_for(secret, cached) else None


def _forget_the_list(_: TokensReconciler, __: Secret) -> None:
    pass


def _sign_again(
    secret: Secret, account: ServiceAccount, root_ca: str, sign: Callable[[], str]
) -> Secret | None:
    """Replace the token with each repair, so that programs lose theirs."""
    found = _completed(secret, account, root_ca, sign)
    if found is None:
        return None
    return replace(found, data={**(found.data or {}), "token": encoded(sign())})


_ACCOUNTS_ADDED = replace(TokensReconciler.watches[1], on=("add",))


BUGS: Final[Mapping[str, Bug]] = {
    "give a token to any account of the name": Bug(
        0, controller, "is_for", _is_for_the_name, "token-of-a-replaced-account"
    ),
    "miss that an account is gone": Bug(
        0,
        TokensReconciler,
        "watches",
        (
            TokensReconciler.watches[0],
            replace(TokensReconciler.watches[1], on=("add",)),
        ),
        "token-of-a-gone-account",
    ),
    "delete tokens by what the cache shows": Bug(
        0,
        TokensReconciler,
        "_account_of",
        _believe_the_cache,
        "token-of-an-unseen-account",
    ),
    "leave deleted tokens on the list": Bug(
        0, TokensReconciler, "deleted", _forget_the_list, "token-that-is-deleted"
    ),
    "sign anew with each repair": Bug(
        0, controller, "completed", _sign_again, "token-that-is-spoiled"
    ),
}
