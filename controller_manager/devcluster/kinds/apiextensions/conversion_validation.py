"""Validation of the field ``conversion`` in the spec of a definition.

Upstream: validateCustomResourceConversion of pkg/apis/apiextensions/validation.
"""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.admissionregistration.webhooks import (
    CLIENT,
    validate_review_versions,
)
from controller_manager.devcluster.scheme.statuses import Cause, invalid, shown
from controller_manager.devcluster.validation.text import table
from controller_manager.devcluster.webhook.client import NO_AUTHORITY, authority_of

_CLIENT: Final = "spec.conversion.webhookClientConfig"
_INTERNAL: Final = table(
    """
    strategy: enum None Webhook default empty
    when strategy is Webhook:
      webhookClientConfig: required pointer "required when strategy is set to Webhook"
      webhookClientConfig:
        include CLIENT
      conversionReviewVersions: required
      conversionReviewVersions: review_versions
    else:
      webhookClientConfig: forbidden
        "should not be set when strategy is not set to Webhook"
      conversionReviewVersions: forbidden filled
        "should not be set when strategy is not set to Webhook"
    """,
    validate_review_versions,
    CLIENT=CLIENT,
)


def validate_conversion(conversion: JSON) -> list[Cause]:
    """Return the errors in a ``conversion``; they name fields of upstream's form."""
    webhook = conversion.get("webhook") or {}
    internal = {"strategy": conversion.get("strategy", "")}
    if (config := webhook.get("clientConfig")) is not None:
        internal["webhookClientConfig"] = config
    if reviews := webhook.get("conversionReviewVersions"):
        internal["conversionReviewVersions"] = reviews
    return _INTERNAL.errors(internal, path="spec.conversion.")


def has_valid_bundle(definition: JSON) -> bool:
    """Tell whether the ``caBundle`` of a definition, if it has one, can be read."""
    return authority_of(_client(definition)) is not None


def validate_bundle(new: JSON, _: str, old: JSON) -> Iterator[Cause]:
    """Yield the error in a changed ``caBundle`` of a definition that is served.

    One that is not served yet may have a wrong one: it waits for a right one.
    """
    if has_valid_bundle(old) and not has_valid_bundle(new):
        bundle = shown(_client(new)["caBundle"])
        yield invalid(f"{_CLIENT}.caBundle", bundle, NO_AUTHORITY)


def _client(definition: JSON) -> JSON:
    """Return the ``clientConfig`` of a definition, empty without one."""
    webhook = (definition["spec"].get("conversion") or {}).get("webhook") or {}
    config: JSON = webhook.get("clientConfig") or {}
    return config
