"""Checks of the level ``restricted``: the required fields of a pod."""

from typing import Final

from controller_manager.api.json_objects import JSON

from .baseline_checks import added_capabilities, proc_mount, profile_of, seccomp_fields
from .checks import (
    Check,
    CheckPod,
    Violation,
    containers,
    counted,
    has_user_namespace,
    names_of,
    quoted,
    runs_on_windows,
    security_of,
    setters,
)

_VOLUMES: Final = frozenset(
    (
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    )
)
_NET_BIND: Final = frozenset(("NET_BIND_SERVICE",))


def _escalation(metadata: JSON, spec: JSON) -> Violation | None:
    del metadata
    field = "allowPrivilegeEscalation"
    names = names_of(spec, lambda each: security_of(each).get(field) is not False)
    if not names:
        return None
    detail = f"{containers(names)} must set securityContext.{field}=false"
    return Violation(f"{field} != false", detail)


def _capabilities(metadata: JSON, spec: JSON) -> Violation | None:
    del metadata
    reason, details = "unrestricted capabilities", []
    if names := names_of(spec, lambda each: "ALL" not in _dropped(each)):
        must = 'must set securityContext.capabilities.drop=["ALL"]'
        details.append(f"{containers(names)} {must}")
    if added := added_capabilities(spec, _NET_BIND, reason):
        details.append(added.detail)
    return Violation(reason, "; ".join(details)) if details else None


def _dropped(container: JSON) -> list[str]:
    capabilities = security_of(container).get("capabilities") or {}
    return capabilities.get("drop") or []


def _volumes(metadata: JSON, spec: JSON) -> Violation | None:
    del metadata
    volumes = spec.get("volumes") or ()
    bad = [each for each in volumes if not _VOLUMES & each.keys()]
    if not bad:
        return None
    names = [each.get("name", "") for each in bad]
    types = sorted({_type_of(each) for each in bad})
    uses = "uses" if len(names) == 1 else "use"
    what = counted("restricted volume type", "restricted volume types", types)
    detail = f"{counted('volume', 'volumes', names)} {uses} {what}"
    return Violation("restricted volume types", detail)


def _type_of(volume: JSON) -> str:
    return next((name for name in volume if name != "name"), "unknown")


def _non_root(metadata: JSON, spec: JSON) -> Violation | None:
    del metadata
    field, reason = "runAsNonRoot", "runAsNonRoot != true"
    names = names_of(spec, lambda each: security_of(each).get(field) is False)
    of_pod = security_of(spec).get(field)
    if who := setters(pod=of_pod is False, names=names):
        return Violation(reason, f"{who} must not set securityContext.{field}=false")
    if of_pod:
        return None
    silent = names_of(spec, lambda each: security_of(each).get(field) is None)
    if not silent:
        return None
    detail = f"pod or {containers(silent)} must set securityContext.{field}=true"
    return Violation(reason, detail)


def _non_root_1_35(metadata: JSON, spec: JSON) -> Violation | None:
    return None if has_user_namespace(spec) else _non_root(metadata, spec)


def _user(metadata: JSON, spec: JSON) -> Violation | None:
    del metadata
    names = names_of(spec, lambda each: security_of(each).get("runAsUser") == 0)
    who = setters(pod=security_of(spec).get("runAsUser") == 0, names=names)
    return Violation("runAsUser=0", f"{who} must not set runAsUser=0") if who else None


def _user_1_35(metadata: JSON, spec: JSON) -> Violation | None:
    return None if has_user_namespace(spec) else _user(metadata, spec)


def _seccomp(metadata: JSON, spec: JSON) -> Violation | None:
    if found := seccomp_fields(metadata, spec):
        return found
    field = "seccompProfile"
    if profile_of(spec, field) is not None:
        return None
    silent = names_of(spec, lambda each: profile_of(each, field) is None)
    if not silent:
        return None
    must = f"must set securityContext.{field}.type to"
    either = " or ".join(map(quoted, (["RuntimeDefault"], ["Localhost"])))
    return Violation(field, f"pod or {containers(silent)} {must} {either}")


class _NotOnWindows:
    """A check that pods for Windows pass: they have no such fields."""

    def __init__(self, check: CheckPod) -> None:
        self._check = check

    def __call__(self, metadata: JSON, spec: JSON) -> Violation | None:
        return None if runs_on_windows(spec) else self._check(metadata, spec)


RESTRICTED_CHECKS: Final = (
    Check(
        "allowPrivilegeEscalation",
        ((8, _escalation), (25, _NotOnWindows(_escalation))),
    ),
    Check(
        "capabilities_restricted",
        ((22, _capabilities), (25, _NotOnWindows(_capabilities))),
        overrides="capabilities_baseline",
    ),
    Check("procMount_restricted", ((35, proc_mount),), overrides="procMount"),
    Check("restrictedVolumes", ((0, _volumes),), overrides="hostPathVolumes"),
    Check("runAsNonRoot", ((0, _non_root), (35, _non_root_1_35))),
    Check("runAsUser", ((23, _user), (35, _user_1_35))),
    Check(
        "seccompProfile_restricted",
        ((19, _seccomp), (25, _NotOnWindows(_seccomp))),
        overrides="seccompProfile_baseline",
    ),
)
