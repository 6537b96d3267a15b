"""Asks the API server what the manager, or a service account, may do."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from controller_manager.api.authorization import v1
from controller_manager.client.identity.service_accounts import NAMESPACE
from controller_manager.client.rest.client import Client
from controller_manager.manager.permissions import (
    CACHES,
    CANDIDATES,
    EVENTS_OF_LEADERS,
    LEASES_OF_LEADERS,
    NEW_ACCOUNTS,
    permissions_by_purpose,
)
from controller_manager.runtime.permissions import Permission

from .examination import Examination
from .finding import Check, Finding, error, ok

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
