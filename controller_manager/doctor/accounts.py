"""Checks that the service accounts of the controllers exist and have their roles."""

import asyncio
from typing import Final

from controller_manager.api.core.v1 import SERVICE_ACCOUNTS
from controller_manager.client.identity.service_accounts import NAMESPACE
from controller_manager.client.rest.errors import Forbidden, NotFound
from controller_manager.manager.permissions import NEW_ACCOUNTS
from controller_manager.runtime.permissions import Permission, controller_role_name
from controller_manager.version import KUBERNETES_VERSION

from .examination import Examination, server_minor
from .finding import Finding, error, ok, warning
from .reviews import as_account, as_self, denied, described, manager_rights

_THIS: Final = int(KUBERNETES_VERSION.split(".")[1])


async def check_accounts(examined: Examination) -> list[Finding]:
    """Check each account of the controllers with a review for each right of its role.

    A role of an older API server may lack rights for resources that this server lacks.
    """
    needed = _needed(examined)
    if not needed:
        return [ok("no controller starts that has an account")]
    missing = await asyncio.gather(*(_is_missing(examined, each) for each in needed))
    findings = await _missing(
        examined, [name for name, gone in zip(needed, missing, strict=True) if gone]
    )
    client = examined.authorization or examined.client
    try:
        lacking = await asyncio.gather(
            *(denied(as_account(client, name), needed[name]) for name in needed)
        )
    except Forbidden:
        mend = "allow create subjectaccessreviews.authorization.k8s.io"
        text = "cannot ask what the accounts of the controllers may do"
        return [*findings, warning(text, mend)]
    if not any(lacking):
        return findings or [ok(f"all {len(needed)} accounts have their roles")]
    _, minor = await server_minor(examined.client)
    for name, permissions in zip(needed, lacking, strict=True):
        if permissions:
            finding = _lacking(examined, name, permissions, needed[name])
            is_older = minor is not None and minor < _THIS
            findings.append(warning(*finding) if is_older else error(*finding))
    return findings


def _needed(examined: Examination) -> dict[str, list[Permission]]:
    """Return the rights of each account; several controllers may share one."""
    needed: dict[str, list[Permission]] = {}
    for descriptor in examined.starting:
        if descriptor.account:
            permissions = descriptor.permissions_with(examined.config.features)
            needed.setdefault(descriptor.account, []).extend(permissions)
    return needed


async def _is_missing(examined: Examination, account: str) -> bool:
    try:
        await examined.client.get(SERVICE_ACCOUNTS, NAMESPACE, account)
    except NotFound:
        return True
    except Forbidden:
        return False  # It may be there. A token request shows it, and needs no read.
    return False


async def _missing(examined: Examination, accounts: list[str]) -> list[Finding]:
    """Return the findings about missing accounts, which the manager makes if it may."""
    if not accounts:
        return []
    create = manager_rights(examined)[NEW_ACCOUNTS]
    if not await denied(as_self(examined.client), create):
        return []
    listed = ", ".join(accounts)
    mend = f"allow create serviceaccounts in {NAMESPACE}, or create them"
    return [error(f"accounts that may not be created are missing: {listed}", mend)]


def _lacking(
    examined: Examination,
    account: str,
    lacking: list[Permission],
    needed: list[Permission],
) -> tuple[str, str]:
    """Return the message and the mend for an account that lacks rights."""
    role = controller_role_name(account)
    mend = f"{_roles_command(examined, account)} | kubectl auth reconcile -f -"
    if sum(len(each.verbs) for each in lacking) == sum(
        len(each.verbs) for each in dict.fromkeys(needed)
    ):
        text = f"{NAMESPACE}/{account} may do nothing: {role} is not bound to it"
        return text, mend
    return f"{NAMESPACE}/{account} may not {described(lacking)}", mend


def _roles_command(examined: Examination, account: str) -> str:
    """Return the command that prints the role that an account should have.

    Reconciled, it adds rights, and takes none away. The right that a gate of the API
    server adds to a role is printed with that gate only.
    """
    sharing = [each for each in examined.starting if each.account == account]
    features = examined.config.features
    words = ["controller-manager roles"]
    if any(
        features.is_enabled(gate) and not gate.default
        for each in sharing
        for gate, _ in each.gated_permissions
    ):  # All of them: one may depend on another.
        given = examined.config.given_gates.items()
        words.append(
            "--feature-gates="
            + ",".join(f"{name}={str(value).lower()}" for name, value in given)
        )
    return " ".join([*words, *(each.name for each in sharing)])
