"""The kinds of the group certificates.k8s.io.

Upstream: pkg/apis/certificates/validation, pkg/registry/certificates.
"""

import base64
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from cryptography import x509

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.control.certificates import request
from controller_manager.control.certificates.pem import blocks
from controller_manager.devcluster.apiserver.security import AUTHENTICATED, User
from controller_manager.devcluster.apiserver.strategy import Strategy
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    duplicate,
    forbidden_field,
    invalid,
    not_supported,
    required,
    shown,
)
from controller_manager.devcluster.validation import rules

from .kinds import kind_of

# Certificate signing requests

_DECISIONS: Final = ("Approved", "Denied")
"""The conditions that only the approval subresource may change."""

_LASTING: Final = (*_DECISIONS, "Failed")
_usage: Final = rules.member(
    (
        *("any", "cert sign", "client auth", "code signing", "content commitment"),
        *("crl sign", "data encipherment", "decipher only", "digital signature"),
        *("email protection", "encipher only", "ipsec end system", "ipsec tunnel"),
        *("ipsec user", "key agreement", "key encipherment", "microsoft sgc"),
        *("netscape sgc", "ocsp signing", "s/mime", "server auth", "signing"),
        "timestamping",
    )
)


def _request(spec: JSON, path: str, _: JSON) -> Iterator[Cause]:
    try:
        parsed = request.parse_request(spec.get("request"))
        why = "" if parsed.is_signed() else "the signature of the request is wrong"
    except request.InvalidRequest as error:
        why = str(error)
    if why:
        yield invalid(f"{path}request", shown(spec.get("request", "")), why)


def _signer(name: str, _: str) -> Iterator[str]:
    if name == "kubernetes.io/legacy-unknown":
        yield "the legacy signerName is not allowed via this API version"
    elif name.count("/") != 1 or name.startswith("/") or name.endswith("/"):
        yield (
            "must be a fully qualified domain and path of the form "
            "'example.com/signer-name'"
        )
    elif "." not in name.partition("/")[0]:
        yield "should be a domain with at least two segments separated by dots"


def _of(obj: JSON, *types: str) -> list[JSON]:
    """Return the conditions of these types; without types, all conditions."""
    conditions: list[JSON] = obj.get("status", {}).get("conditions") or []
    return [each for each in conditions if not types or each.get("type") in types]


def _conditions(new: JSON, _: str, old: JSON) -> Iterator[Cause]:
    """Check conditions; errors that the old object has are allowed."""
    seen: set[str] = set()
    had = {each.get("type") for each in _of(old, *_DECISIONS)}
    for number, condition in enumerate(_of(new)):
        field = f"status.conditions[{number}]"
        kind, status = condition.get("type", ""), condition.get("status")
        if not kind:
            yield required(f"{field}.type")
        allowed = ("True",) if kind in _LASTING else ("False", "True", "Unknown")
        if not status:
            yield required(f"{field}.status")
        elif status not in allowed:
            yield not_supported(f"{field}.status", shown(status), allowed)
        others = {*_DECISIONS} - {kind}
        if kind in _DECISIONS and others <= seen and had != {*_DECISIONS}:
            why = "Approved and Denied conditions are mutually exclusive"
            yield invalid(f"{field}.type", shown(kind), why)
        if kind in seen:
            yield duplicate(f"{field}.type", shown(kind))
        seen.add(kind)
    for kind in _LASTING:
        if len(_of(new, kind)) < len(_of(old, kind)):
            why = f'updates may not remove a condition of type "{kind}"'
            yield forbidden_field("status.conditions", why)


def _no_decision(new: JSON, _: str, old: JSON) -> Iterator[Cause]:
    """Check that a write of the status neither approves nor denies."""
    for kind in _DECISIONS:
        if len(_of(new, kind)) > len(_of(old, kind)):
            why = f'updates may not add a condition of type "{kind}"'
            yield forbidden_field("status.conditions", why)


def _certificate(new: JSON, path: str, old: JSON) -> Iterator[Cause]:
    """Check a new certificate; an issued certificate must not change."""
    before, after = (each.get("certificate", "") for each in (old, new))
    if before == after:
        return
    if before:
        why = "updates may not modify existing certificate content"
        yield forbidden_field(f"{path}certificate", why)
    elif complaint := _complaint(after):
        yield invalid(f"{path}certificate", shown("<certificate data>"), complaint)


def _complaint(encoded: str) -> str:
    """Return why a chain of certificates cannot be issued, empty if it can."""
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


def _condition(obj: JSON) -> str:
    """Return the column Condition: the decision, then Issued or Failed."""
    found = {each.get("type") for each in _of(obj)}
    if "Denied" in found:
        words = ["Denied"]
    else:
        words = ["Approved"] if "Approved" in found else ["Pending"]
    if "Failed" in found:
        words.append("Failed")
    if obj.get("status", {}).get("certificate"):
        words.append("Issued")
    return ",".join(words)


class _SigningRequestStrategy(Strategy):
    """Records the user; only the subresources change a request later."""

    def record_user(self, obj: JSON, user: User) -> None:
        """Fill in the user of the request; the user fields of the body are ignored."""
        spec = obj["spec"]
        for name in ("username", "uid", "groups", "extra"):
            spec.pop(name, None)
        found = {
            "username": user.name,
            "uid": user.uid,
            # Authentication adds this group to every user.
            "groups": list(dict.fromkeys((*user.groups, AUTHENTICATED))),
            "extra": {key: list(values) for key, values in user.extra.items()},
        }
        spec.update({key: value for key, value in found.items() if value})

    def prepare_for_status_update(self, old: JSON, new: JSON) -> None:
        """Keep the approval conditions."""
        for kind in _DECISIONS:
            before, after = _of(old, kind), _of(new, kind)
            if len(before) == len(after):
                for kept, changed in zip(before, after, strict=True):
                    changed.clear()
                    changed.update(kept)

    def stamp(self, old: JSON, new: JSON, now: datetime) -> None:
        """Fill in the times that conditions lack."""
        for condition in _of(new):
            if not condition.get("lastUpdateTime"):
                condition["lastUpdateTime"] = format_time(now)
            if not condition.get("lastTransitionTime"):
                former = [
                    each.get("lastTransitionTime")
                    for each in _of(old, condition.get("type", ""))
                    if each.get("status") == condition.get("status")
                ]
                found = next((each for each in former if each), format_time(now))
                condition["lastTransitionTime"] = found


def _replace_approval(old: JSON, new: JSON) -> JSON:
    """Return the request with the new conditions and no other changes."""
    status = {**old["status"], "conditions": _of(new)}
    if not status["conditions"]:
        del status["conditions"]  # Go leaves an empty list out
    return {**old, "metadata": new["metadata"], "status": status}


SIGNING_REQUESTS: Final = kind_of(
    "certificates.k8s.io/v1/certificatesigningrequests",
    _SigningRequestStrategy(),
    kept=("spec",),
    new_rules="""
        spec:
          hook request
          usages: required
          usages[]: usage
          usages[]: unique
          signerName: required signer
          expirationSeconds: at-least 600
            "may not specify a duration less than 600 seconds (10 minutes)"
        """,
    update_rules="hook conditions",
    status_update_rules="""
        hook conditions no_decision
        status change:
          hook certificate
        """,
    selectable_fields="spec.signerName",
    empty={"spec": {}, "status": {}},
    printer="""
        Name
        Age
        SignerName: .spec.signerName or <none>
        Requestor: .spec.username
        RequestedDuration: duration .spec.expirationSeconds or <none>
        Condition: condition
        """,
    replace={"approval": _replace_approval},
)

# Cluster trust bundles


def _named(bundle: JSON, _: str, __: JSON) -> Iterator[Cause]:
    """Check that the name of a bundle begins with that of its signer."""
    name = bundle["metadata"].get("name", "")
    signer = bundle["spec"].get("signerName", "")
    prefix = f"{signer.replace('/', ':')}:" if signer else ""
    if not name.startswith(prefix) or (not signer and ":" in name):
        why = (
            f"ClusterTrustBundle for signerName {signer} must be named with prefix "
            f"{prefix}"
            if signer
            else 'ClusterTrustBundle without signer name must not have ":" in its name'
        )
        yield invalid("metadata.name", shown(name), why)


def _anchors(text: str, field: str) -> Iterator[Cause]:
    found = list(blocks(text.encode()))
    if not found or any(each.type != "CERTIFICATE" for each in found):
        why = "must contain at least one trust anchor, and nothing else"
        yield invalid(field, shown("<value omitted>"), why)


TRUST_BUNDLES: Final = kind_of(
    "certificates.k8s.io/v1beta1/clustertrustbundles",
    check_name=lambda *_: (),  # the rules compare it with the signer
    rules="hook named\nspec:\n  trustBundle: anchors default empty",
    update_rules="spec change:\n  signerName: immutable default empty",
    selectable_fields="spec.signerName",
    printer="Name; SignerName: .spec.signerName or <none>",
)

# Pod certificate requests

POD_REQUESTS: Final = kind_of(
    "certificates.k8s.io/v1beta1/podcertificaterequests",
    kept=("spec",),
    defaults={"spec": {"maxExpirationSeconds": 86400}},
    printer="""
        Name
        PodName: .spec.podName
        ServiceAccountName: .spec.serviceAccountName
        NodeName: .spec.nodeName
        SignerName: .spec.signerName
        Age
        """,
)
