"""Validation of the field ``conversion`` in the spec of a definition.

Upstream: validateCustomResourceConversion of pkg/apis/apiextensions/validation.
"""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.admissionregistration.webhooks import (
    validate_client,
)
from controller_manager.devcluster.scheme.names import service_name_problems
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden_field,
    invalid,
    not_supported,
    required,
    shown,
)
from controller_manager.devcluster.webhook.client import NO_AUTHORITY, authority_of

from .conversion.review import REVIEWS

_CONVERSIONS: Final = ("None", "Webhook")
_CLIENT: Final = "spec.conversion.webhookClientConfig"


def validate_conversion(conversion: JSON) -> Iterator[Cause]:
    """Yield the errors in the field ``conversion`` of a spec, as upstream."""
    path, strategy = "spec.conversion", conversion.get("strategy", "")
    webhook = conversion.get("webhook") or {}
    config, reviews = (
        webhook.get("clientConfig"),
        webhook.get("conversionReviewVersions"),
    )
    if strategy not in _CONVERSIONS:
        yield not_supported(f"{path}.strategy", shown(strategy), _CONVERSIONS)
    if strategy != "Webhook":
        detail = "should not be set when strategy is not set to Webhook"
        if config is not None:
            yield forbidden_field(_CLIENT, detail)
        if reviews:
            yield forbidden_field(f"{path}.conversionReviewVersions", detail)
        return
    if config is None:
        yield required(_CLIENT, "required when strategy is set to Webhook")
    else:
        yield from validate_client(config, _CLIENT)
    yield from _validate_reviews(reviews or [], f"{path}.conversionReviewVersions")


def _validate_reviews(versions: list[str], path: str) -> Iterator[Cause]:
    if not versions:
        yield required(path)
        return
    for number, version in enumerate(versions):
        where = f"{path}[{number}]"
        if version in versions[:number]:
            yield invalid(where, shown(version), "duplicate version")
            continue
        for problem in service_name_problems(version):
            yield invalid(where, shown(version), problem)
    if not {*versions} & {*REVIEWS}:
        detail = f"must include at least one of {', '.join(REVIEWS)}"
        yield invalid(path, shown(versions), detail)


def has_valid_bundle(definition: JSON) -> bool:
    """Tell whether the ``caBundle`` of a definition, if it has one, can be read."""
    return authority_of(_client(definition)) is not None


def validate_bundle(old: JSON, new: JSON, *, is_served: bool) -> Iterator[Cause]:
    """Yield the error in a changed ``caBundle``.

    A definition that is not served yet may have a wrong one: it waits for a right one.
    """
    if is_served and has_valid_bundle(old) and not has_valid_bundle(new):
        bundle = shown(_client(new)["caBundle"])
        yield invalid(f"{_CLIENT}.caBundle", bundle, NO_AUTHORITY)


def _client(definition: JSON) -> JSON:
    """Return the ``clientConfig`` of a definition, empty without one."""
    webhook = (definition["spec"].get("conversion") or {}).get("webhook") or {}
    config: JSON = webhook.get("clientConfig") or {}
    return config
