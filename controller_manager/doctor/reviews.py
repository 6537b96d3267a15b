"""Asks the API server what the manager, or a service account, may do.

The service accounts of the controllers must exist, or be created.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from controller_manager.api.authorization import v1
from controller_manager.api.core.v1 import SERVICE_ACCOUNTS
from controller_manager.client.identity.service_accounts import NAMESPACE
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import Forbidden, NotFound
from controller_manager.manager.permissions import (
    CACHES,
    CANDIDATES,
    EVENTS_OF_LEADERS,
    LEASES_OF_LEADERS,
    NEW_ACCOUNTS,
    permissions_by_purpose,
)
from controller_manager.runtime.permissions import Permission, controller_role_name
from controller_manager.version import KUBERNETES_VERSION

from .examination import Examination, server_minor
from .finding import Check, Finding, error, ok, warning

Ask = Callable[[v1.ResourceAttributes], Awaitable[bool]]
"""Tells whether an identity may send a request."""


def as_self(client: Client) -> Ask:
    """Return the function that reviews the identity of the client itself."""

    async def ask(attributes: v1.ResourceAttributes) -> bool:
        spec = v1.SelfSubjectAccessReviewSpec(resource_attributes=attributes)
        review = v1.SelfSubjectAccessReview(spec=spec)
        answer = await client.create(v1.SELF_SUBJECT_ACCESS_REVIEWS, review)
        return answer.status.allowed

    return ask


def as_account(client: Client, account: str) -> Ask:
    """Return the function that reviews a service account of the controllers.

    The client's identity must be allowed to create subjectaccessreviews.
    """

    async def ask(attributes: v1.ResourceAttributes) -> bool:
        spec = v1.SubjectAccessReviewSpec(
            resource_attributes=attributes,
            user=f"system:serviceaccount:{NAMESPACE}:{account}",
            groups=(
                "system:serviceaccounts",
                f"system:serviceaccounts:{NAMESPACE}",
                "system:authenticated",
            ),
        )
        review = v1.SubjectAccessReview(spec=spec)
        answer = await client.create(v1.SUBJECT_ACCESS_REVIEWS, review)
        return answer.status.allowed

    return ask


async def may_get(client: Client, path: str) -> bool:
    """Tell whether the client's identity may read a path that is no resource."""
    spec = v1.SelfSubjectAccessReviewSpec(
        non_resource_attributes=v1.NonResourceAttributes(path=path, verb="get")
    )
    review = v1.SelfSubjectAccessReview(spec=spec)
    answer = await client.create(v1.SELF_SUBJECT_ACCESS_REVIEWS, review)
    return answer.status.allowed


async def denied(ask: Ask, permissions: Iterable[Permission]) -> list[Permission]:
    """Return the permissions that the identity lacks, with the verbs that it lacks."""
    unique = list(dict.fromkeys(permissions))
    verbs = await asyncio.gather(*(_denied_verbs(ask, each) for each in unique))
    return [
        replace(each, verbs=tuple(lacking))
        for each, lacking in zip(unique, verbs, strict=True)
        if lacking
    ]


async def _denied_verbs(ask: Ask, permission: Permission) -> Sequence[str]:
    questions = list(_questions(permission))
    answers = await asyncio.gather(*(ask(each) for each in questions))
    lacking = [
        question.verb
        for question, is_allowed in zip(questions, answers, strict=True)
        if not is_allowed
    ]
    return list(dict.fromkeys(lacking))


def _questions(permission: Permission) -> Iterator[v1.ResourceAttributes]:
    resource, _, subresource = permission.resource.partition("/")
    for verb in permission.verbs:
        for name in permission.names or ("",):
            yield v1.ResourceAttributes(
                namespace=permission.namespace,
                verb=verb,
                group=permission.group,
                resource=resource,
                subresource=subresource,
                name=name,
            )


def described(permissions: Iterable[Permission]) -> str:
    """Return permissions as text: ``list, watch pods; create leases in default``."""
    return "; ".join(_described(each) for each in permissions)


def _described(permission: Permission) -> str:
    resource = permission.resource
    if permission.group:
        plural, slash, subresource = resource.partition("/")
        resource = f"{plural}.{permission.group}{slash}{subresource}"
    if len(permission.names) == 1:
        resource += f" {permission.names[0]}"
    where = f" in {permission.namespace}" if permission.namespace else ""
    return f"{', '.join(permission.verbs)} {resource}{where}"


_MEND: Final = "allow it in a role of this identity"
_WITHOUT_ACCOUNTS: Final = (CACHES, LEASES_OF_LEADERS, EVENTS_OF_LEADERS, CANDIDATES)


def manager_rights(examined: Examination) -> Mapping[str, Sequence[Permission]]:
    """Return the permissions that the manager's own identity needs, by purpose.

    Without ``--use-service-account-credentials`` it needs no tokens.
    """
    generic = examined.config.generic
    migration = generic.leader_migration
    needed = permissions_by_purpose(
        examined.starting,
        generic.leader_election,
        features=examined.config.features,
        migration_lease=migration.leader_name if migration else "",
    )
    if examined.uses_accounts:
        return needed
    return {name: each for name, each in needed.items() if name in _WITHOUT_ACCOUNTS}


def checks_of_rights(examined: Examination) -> Iterator[Check]:
    """Yield a check for each purpose for which the manager's identity needs rights.

    The right to create accounts is left to the check of the accounts, which knows
    whether one is missing.
    """
    for purpose, permissions in manager_rights(examined).items():
        if purpose != NEW_ACCOUNTS:
            run = partial(_check, examined, permissions)
            yield Check(f"rights: {purpose}", run)
    if not examined.uses_accounts:
        yield Check("rights: controllers", partial(_check_controllers, examined))


async def _check(
    examined: Examination, permissions: Sequence[Permission]
) -> list[Finding]:
    lacking = await denied(as_self(examined.client), permissions)
    if lacking:
        return [error(f"may not {described(lacking)}", _MEND)]
    return [ok("all rights are there")]


async def _check_controllers(examined: Examination) -> list[Finding]:
    """Check the rights of all controllers, which act as the manager itself."""
    ask = as_self(examined.client)
    lacking = await asyncio.gather(
        *(
            denied(ask, each.permissions_with(examined.config.features))
            for each in examined.starting
        )
    )
    findings = [
        error(f"{each.name} may not {described(permissions)}", _MEND)
        for each, permissions in zip(examined.starting, lacking, strict=True)
        if permissions
    ]
    return findings or [ok("the manager's identity has the rights of all controllers")]


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
