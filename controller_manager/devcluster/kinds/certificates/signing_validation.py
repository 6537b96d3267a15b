"""Checks requests for certificates (pkg/apis/certificates/validation)."""

import base64
from collections.abc import Iterator, Sequence
from typing import Final

from cryptography import x509

from controller_manager.api.json_objects import JSON
from controller_manager.control.certificates.pem import blocks
from controller_manager.control.certificates.request import (
    InvalidRequest,
    parse_request,
)
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    duplicate,
    forbidden_field,
    invalid,
    not_supported,
    required,
    shown,
)

DECISIONS: Final = ("Approved", "Denied")
"""The conditions that only the approval subresource may change."""

_LASTING: Final = (*DECISIONS, "Failed")
_LEGACY: Final = "kubernetes.io/legacy-unknown"
_SHORTEST: Final = 600
_TRUE: Final = ("True",)
_STATUSES: Final = ("False", "True", "Unknown")
USAGES: Final = (
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
)


def validate_spec(spec: JSON) -> Iterator[Cause]:
    """Check the request, its usages, its signer and its duration."""
    if complaint := _request_complaint(spec):
        value = shown(spec.get("request", ""))
        yield invalid("spec.request", value, complaint)
    usages = spec.get("usages") or ()
    if not usages:
        yield required("spec.usages")
    for number, usage in enumerate(usages):
        if usage not in USAGES:
            field = f"spec.usages[{number}]"
            yield not_supported(field, shown(usage), USAGES)
    for number, usage in enumerate(usages):
        if usage in usages[:number]:
            yield duplicate(f"spec.usages[{number}]", shown(usage))
    yield from _validate_signer(spec.get("signerName", ""))
    duration = spec.get("expirationSeconds")
    if duration is not None and duration < _SHORTEST:
        why = "may not specify a duration less than 600 seconds (10 minutes)"
        yield invalid("spec.expirationSeconds", shown(duration), why)


def _request_complaint(spec: JSON) -> str:
    try:
        parsed = parse_request(spec.get("request"))
    except InvalidRequest as error:
        return str(error)
    return "" if parsed.is_signed() else "the signature of the request is wrong"


def _validate_signer(name: str) -> Iterator[Cause]:
    field = "spec.signerName"
    if not name:
        yield required(field)
    elif name == _LEGACY:
        why = "the legacy signerName is not allowed via this API version"
        yield invalid(field, shown(name), why)
    elif name.count("/") != 1 or name.startswith("/") or name.endswith("/"):
        why = (
            "must be a fully qualified domain and path of the form "
            "'example.com/signer-name'"
        )
        yield invalid(field, shown(name), why)
    elif "." not in name.partition("/")[0]:
        why = "should be a domain with at least two segments separated by dots"
        yield invalid(field, shown(name), why)


def conditions_of(obj: JSON, *kinds: str) -> list[JSON]:
    """Return the conditions of these types; without types, all conditions."""
    conditions: list[JSON] = obj.get("status", {}).get("conditions") or []
    return [each for each in conditions if not kinds or each.get("type") in kinds]


def validate_conditions(old: JSON, new: JSON) -> Iterator[Cause]:
    """Check conditions; errors that the old object has are allowed."""
    seen: set[str] = set()
    had = {each.get("type") for each in conditions_of(old, *DECISIONS)}
    for number, condition in enumerate(conditions_of(new)):
        field = f"status.conditions[{number}]"
        kind = condition.get("type", "")
        if not kind:
            yield required(f"{field}.type")
        status = condition.get("status")
        allowed: Sequence[str] = _TRUE if kind in _LASTING else _STATUSES
        if not status:
            yield required(f"{field}.status")
        elif status not in allowed:
            yield not_supported(f"{field}.status", shown(status), allowed)
        others = {*DECISIONS} - {kind}
        if kind in DECISIONS and others <= seen and had != {*DECISIONS}:
            why = "Approved and Denied conditions are mutually exclusive"
            yield invalid(f"{field}.type", shown(kind), why)
        if kind in seen:
            yield duplicate(f"{field}.type", shown(kind))
        seen.add(kind)
    for kind in _LASTING:
        if len(conditions_of(new, kind)) < len(conditions_of(old, kind)):
            why = f'updates may not remove a condition of type "{kind}"'
            yield forbidden_field("status.conditions", why)


def validate_no_decision(old: JSON, new: JSON) -> Iterator[Cause]:
    """Check that a write of the status neither approves nor denies."""
    for kind in DECISIONS:
        before, after = conditions_of(old, kind), conditions_of(new, kind)
        if len(after) > len(before):
            why = f'updates may not add a condition of type "{kind}"'
            yield forbidden_field("status.conditions", why)


def validate_certificate(old: JSON, new: JSON) -> Sequence[Cause]:
    """Check a new certificate; an issued certificate must not change."""
    field = "status.certificate"
    before, after = (each["status"].get("certificate", "") for each in (old, new))
    if before == after:
        return ()
    if before:
        why = "updates may not modify existing certificate content"
        return (forbidden_field(field, why),)
    complaint = _certificate_complaint(after)
    if not complaint:
        return ()
    return (invalid(field, shown("<certificate data>"), complaint),)


def _certificate_complaint(encoded: str) -> str:
    found = list(blocks(base64.b64decode(encoded)))
    if not found:
        return "must contain at least one CERTIFICATE PEM block"
    for block in found:
        if block.type != "CERTIFICATE":
            return f"only CERTIFICATE PEM blocks are allowed, found {shown(block.type)}"
        if block.has_headers:
            return "no PEM block headers are permitted"
        try:
            x509.load_der_x509_certificate(block.content)
        except ValueError as error:
            return str(error)
    return ""
