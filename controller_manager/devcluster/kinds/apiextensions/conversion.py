"""Conversion of custom resources between the versions of their definition.

Upstream calls a webhook for it (apiextensions-apiserver/pkg/apiserver/conversion). This
server calls none: it serves no definition whose objects would need it.
"""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden_field,
    invalid,
    not_supported,
    required,
    shown,
)

_CONVERSIONS: Final = ("None", "Webhook")
_REVIEWS: Final = ("v1", "v1beta1")


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
            yield forbidden_field(f"{path}.webhookClientConfig", detail)
        if reviews:
            yield forbidden_field(f"{path}.conversionReviewVersions", detail)
        return
    where = f"{path}.webhookClientConfig"
    if config is None:
        yield required(where, "required when strategy is set to Webhook")
    elif ("url" in config) == ("service" in config):
        yield required(where, "exactly one of url or service is required")
    if not reviews:
        yield required(f"{path}.conversionReviewVersions")
    elif not {*reviews} & {*_REVIEWS}:
        detail = f"must include at least one of {', '.join(_REVIEWS)}"
        yield invalid(f"{path}.conversionReviewVersions", shown(reviews), detail)


def conversion_problem(definition: JSON) -> str:
    """Return why objects of a definition cannot be served, and the mend; else "".

    A webhook is never called if objects are stored and served in one version only.
    """
    spec = definition["spec"]
    if (spec.get("conversion") or {}).get("strategy") != "Webhook":
        return ""
    versions = spec.get("versions") or []
    used = {each.get("name", "") for each in versions if each.get("served")}
    used.update(definition.get("status", {}).get("storedVersions") or ())
    stored = next(
        (each.get("name", "") for each in versions if each.get("storage")), ""
    )
    if not (others := sorted(used - {stored})):
        return ""
    return (
        "the development cluster calls no conversion webhook, and objects of "
        f"{', '.join(others)} would need one: let spec.versions serve {stored} alone, "
        "with no other version in status.storedVersions, or set strategy: None if the "
        "versions differ in their apiVersion alone"
    )


def validate_convertible(definition: JSON) -> Iterator[Cause]:
    """Yield an error if objects of a definition would need a webhook."""
    if problem := conversion_problem(definition):
        yield invalid("spec.conversion.strategy", shown("Webhook"), problem)
