"""Asks the API server what an identity may do; reviews are not stored."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

from msgspec.structs import replace

from controller_manager.api.authorization.v1 import (
    SELF_SUBJECT_ACCESS_REVIEWS,
    SUBJECT_ACCESS_REVIEWS,
    NonResourceAttributes,
    ResourceAttributes,
    SelfSubjectAccessReview,
    SelfSubjectAccessReviewSpec,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
)
from controller_manager.client.identity.service_accounts import NAMESPACE
from controller_manager.client.rest.client import Client
from controller_manager.runtime.permissions import Permission

Ask = Callable[[ResourceAttributes], Awaitable[bool]]
"""Tells whether an identity may send a request."""


def as_self(client: Client) -> Ask:
    """Return the function that reviews the identity of the client itself."""

    async def ask(attributes: ResourceAttributes) -> bool:
        spec = SelfSubjectAccessReviewSpec(resource_attributes=attributes)
        review = SelfSubjectAccessReview(spec=spec)
        answer = await client.create(SELF_SUBJECT_ACCESS_REVIEWS, review)
        return answer.status.allowed

    return ask


def as_account(client: Client, account: str) -> Ask:
    """Return the function that reviews a service account of the controllers.

    The client's identity must be allowed to create subjectaccessreviews.
    """

    async def ask(attributes: ResourceAttributes) -> bool:
        spec = SubjectAccessReviewSpec(
            resource_attributes=attributes,
            user=f"system:serviceaccount:{NAMESPACE}:{account}",
            groups=(
                "system:serviceaccounts",
                f"system:serviceaccounts:{NAMESPACE}",
                "system:authenticated",
            ),
        )
        review = SubjectAccessReview(spec=spec)
        answer = await client.create(SUBJECT_ACCESS_REVIEWS, review)
        return answer.status.allowed

    return ask


async def may_get(client: Client, path: str) -> bool:
    """Tell whether the client's identity may read a path that is no resource."""
    spec = SelfSubjectAccessReviewSpec(
        non_resource_attributes=NonResourceAttributes(path=path, verb="get")
    )
    review = SelfSubjectAccessReview(spec=spec)
    answer = await client.create(SELF_SUBJECT_ACCESS_REVIEWS, review)
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


def _questions(permission: Permission) -> Iterator[ResourceAttributes]:
    resource, _, subresource = permission.resource.partition("/")
    for verb in permission.verbs:
        for name in permission.names or ("",):
            yield ResourceAttributes(
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
