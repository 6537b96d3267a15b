"""CertificateSigningRequest: asks a signer for a certificate."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.scheme.statuses import Cause
from controller_manager.devcluster.server.rest.strategy import Strategy, fields_by_path
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
    human_duration,
)
from controller_manager.devcluster.server.security.authentication import (
    AUTHENTICATED,
    User,
)

from .signing_validation import (
    DECISIONS,
    conditions_of,
    validate_certificate,
    validate_conditions,
    validate_no_decision,
    validate_spec,
)

_USER_FIELDS: Final = ("username", "uid", "groups", "extra")


class CertificateSigningRequestStrategy(Strategy):
    """After the creation, only the subresources change a request."""

    columns: ClassVar = (
        NAME,
        AGE,
        Column("SignerName"),
        Column("Requestor"),
        Column("RequestedDuration"),
        Column("Condition"),
    )
    selectable_fields: ClassVar[Mapping[str, tuple[str, ...]]] = fields_by_path(
        "spec.signerName"
    )
    empty: ClassVar = {"spec": {}, "status": {}}

    def record_user(self, obj: JSON, user: User) -> None:
        """Fill in the user of the request; the user fields of the body are ignored."""
        spec = obj["spec"]
        for name in _USER_FIELDS:
            spec.pop(name, None)
        found = {
            "username": user.name,
            "uid": user.uid,
            # Authentication adds this group to every user.
            "groups": list(dict.fromkeys((*user.groups, AUTHENTICATED))),
            "extra": {key: list(values) for key, values in user.extra.items()},
        }
        spec.update({key: value for key, value in found.items() if value})

    def prepare_for_update(self, old: JSON, new: JSON) -> None:
        """Keep the spec: a request does not change."""
        new["spec"] = old["spec"]

    def prepare_for_status_update(self, old: JSON, new: JSON) -> None:
        """Keep the approval conditions, and fill in the times of new conditions."""
        for kind in DECISIONS:
            before, after = conditions_of(old, kind), conditions_of(new, kind)
            if len(before) == len(after):
                for kept, changed in zip(before, after, strict=True):
                    changed.clear()
                    changed.update(kept)

    def stamp(self, old: JSON, new: JSON, now: datetime) -> None:
        """Fill in the times that conditions lack."""
        for condition in conditions_of(new):
            if not condition.get("lastUpdateTime"):
                condition["lastUpdateTime"] = format_time(now)
            if not condition.get("lastTransitionTime"):
                former = [
                    each.get("lastTransitionTime")
                    for each in conditions_of(old, condition.get("type", ""))
                    if each.get("status") == condition.get("status")
                ]
                found = next((each for each in former if each), format_time(now))
                condition["lastTransitionTime"] = found

    def validate_new(self, obj: JSON) -> Sequence[Cause]:
        """Check the spec, which does not change later."""
        return list(validate_spec(obj["spec"]))

    def validate_status_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check that a status has no decision, and keeps an issued certificate."""
        return [
            *validate_conditions(old, new),
            *validate_no_decision(old, new),
            *validate_certificate(old, new),
        ]

    def validate_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check the conditions."""
        return list(validate_conditions(old, new))

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        spec = obj.get("spec", {})
        duration = spec.get("expirationSeconds")
        return [
            name_of(obj),
            age(obj, now),
            spec.get("signerName", "<none>"),
            spec.get("username", ""),
            "<none>" if duration is None else human_duration(duration),
            _condition(obj),
        ]


def _condition(obj: JSON) -> str:
    """Return the column Condition: the decision, then Issued or Failed."""
    found = {each.get("type") for each in conditions_of(obj)}
    if "Denied" in found:
        words = ["Denied"]
    else:
        words = ["Approved"] if "Approved" in found else ["Pending"]
    if "Failed" in found:
        words.append("Failed")
    if obj.get("status", {}).get("certificate"):
        words.append("Issued")
    return ",".join(words)


def _replace_approval(old: JSON, new: JSON) -> JSON:
    """Return the request with the new conditions and no other changes."""
    status = {**old["status"], "conditions": conditions_of(new)}
    if not status["conditions"]:
        del status["conditions"]  # Go leaves an empty list out
    return {**old, "metadata": new["metadata"], "status": status}


KIND: Final = kind_of(
    "certificates.k8s.io/v1",
    "certificatesigningrequests",
    CertificateSigningRequestStrategy(),
    replace={"approval": _replace_approval},
)
