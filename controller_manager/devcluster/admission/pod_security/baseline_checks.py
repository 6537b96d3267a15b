"""Checks of the level ``baseline`` for security contexts."""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import shown

from .checks import (
    Check,
    Violation,
    containers,
    containers_of,
    has_user_namespace,
    names_of,
    quoted,
    security_of,
    setters,
)

_CAPABILITIES: Final = frozenset(
    (
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    )
)
_SELINUX_TYPES: Final = frozenset(
    ("", "container_t", "container_init_t", "container_kvm_t")
)
_SYSCTLS: Final = (
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
)
_SYSCTLS_1_27: Final = (*_SYSCTLS, "net.ipv4.ip_local_reserved_ports")
_SYSCTLS_1_29: Final = (
    *_SYSCTLS_1_27,
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
)
_SYSCTLS_1_32: Final = (*_SYSCTLS_1_29, "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem")
_PROFILES: Final = ("RuntimeDefault", "Localhost")
_APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER: Final = "container.seccomp.security.alpha.kubernetes.io/"
_SECCOMP_VALUES: Final = ("runtime/default", "docker/default")


def _app_armor(metadata: JSON, spec: JSON) -> Violation | None:
    names = names_of(spec, lambda each: not _has_good_profile(each, "appArmorProfile"))
    is_pod_bad = not _has_good_profile(spec, "appArmorProfile")
    values = sorted(_bad_profiles(spec, "appArmorProfile"))
    annotations = sorted(
        f"{key}={shown(value)}"
        for key, value in (metadata.get("annotations") or {}).items()
        if key.startswith(_APP_ARMOR) and not _is_good_app_armor(value)
    )
    parts = [setters(pod=is_pod_bad, names=names)]
    if annotations:
        parts.append("annotation" if len(annotations) == 1 else "annotations")
    who, values = " and ".join(filter(None, parts)), values + annotations
    if not who:
        return None
    reason = "forbidden AppArmor profile" + ("s" if len(values) > 1 else "")
    return Violation(
        reason, f"{who} must not set AppArmor profile type to {quoted(values)}"
    )


def _is_good_app_armor(value: str) -> bool:
    return value in ("", "runtime/default") or value.startswith("localhost/")


def profile_of(holder: JSON, field: str) -> str | None:
    """Return the type of a profile of a pod or container, `None` without one."""
    profile = security_of(holder).get(field)
    return None if profile is None else str(profile.get("type", ""))


def _has_good_profile(holder: JSON, field: str) -> bool:
    return profile_of(holder, field) in (None, *_PROFILES)


def _bad_profiles(spec: JSON, field: str) -> set[str]:
    """Return the types of profiles that are not allowed."""
    found = [profile_of(each, field) for each in (spec, *containers_of(spec))]
    return {each for each in found if each is not None and each not in _PROFILES}


def _capabilities(metadata: JSON, spec: JSON) -> Violation | None:
    del metadata
    return added_capabilities(spec, _CAPABILITIES, "non-default capabilities")


def added_capabilities(
    spec: JSON, allowed: frozenset[str], reason: str
) -> Violation | None:
    """Return the violation of containers that add other capabilities than these."""
    bad: set[str] = set()
    names = []
    for container in containers_of(spec):
        capabilities = security_of(container).get("capabilities") or {}
        if found := set(capabilities.get("add") or ()) - allowed:
            names.append(container.get("name", ""))
            bad |= found
    if not names:
        return None
    where = "in securityContext.capabilities.add"
    listed = quoted(sorted(bad))
    return Violation(reason, f"{containers(names)} must not include {listed} {where}")


def _privileged(metadata: JSON, spec: JSON) -> Violation | None:
    del metadata
    names = names_of(spec, lambda each: bool(security_of(each).get("privileged")))
    if not names:
        return None
    detail = f"{containers(names)} must not set securityContext.privileged=true"
    return Violation("privileged", detail)


def proc_mount(metadata: JSON, spec: JSON) -> Violation | None:
    """Allow no other mount of /proc than the default one."""
    del metadata
    names, found = [], set()
    for container in containers_of(spec):
        value = security_of(container).get("procMount")
        if value not in (None, "Default"):
            names.append(container.get("name", ""))
            found.add(value)
    if not names:
        return None
    what = quoted(sorted(found))
    detail = f"{containers(names)} must not set securityContext.procMount to {what}"
    return Violation("procMount", detail)


def _proc_mount_1_35(metadata: JSON, spec: JSON) -> Violation | None:
    return None if has_user_namespace(spec) else proc_mount(metadata, spec)


def _selinux(metadata: JSON, spec: JSON) -> Violation | None:
    del metadata
    return _bad_selinux(spec, _SELINUX_TYPES)


def _selinux_1_31(metadata: JSON, spec: JSON) -> Violation | None:
    del metadata
    return _bad_selinux(spec, _SELINUX_TYPES | {"container_engine_t"})


def _bad_selinux(spec: JSON, types: frozenset[str]) -> Violation | None:
    bad = [
        (each, options)
        for each in (spec, *containers_of(spec))
        if (options := security_of(each).get("seLinuxOptions"))
        and not _is_good_selinux(options, types)
    ]
    if not bad:
        return None
    names = [each.get("name", "") for each, _ in bad if each is not spec]
    who = setters(pod=any(each is spec for each, _ in bad), names=names)
    found = sorted({options.get("type", "") for _, options in bad} - types)
    data = (
        [f"{'type' if len(found) == 1 else 'types'} {quoted(found)}"] if found else []
    )
    data += [
        f"{field} may not be set"
        for field in ("user", "role")
        if any(options.get(field) for _, options in bad)
    ]
    detail = f"{who} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}"
    return Violation("seLinuxOptions", detail)


def _is_good_selinux(options: JSON, types: frozenset[str]) -> bool:
    is_free = not options.get("user") and not options.get("role")
    return is_free and options.get("type", "") in types


def _seccomp_annotations(metadata: JSON, spec: JSON) -> Violation | None:
    """Check the annotations that were the fields' predecessors before 1.19."""
    annotations = metadata.get("annotations") or {}
    keys = [
        f"{_SECCOMP_CONTAINER}{each.get('name', '')}" for each in containers_of(spec)
    ]
    bad = sorted(
        f"{key}={shown(annotations[key])}"
        for key in {_SECCOMP_POD, *keys} & annotations.keys()
        if annotations[key] not in _SECCOMP_VALUES
        and not annotations[key].startswith("localhost/")
    )
    if not bad:
        return None
    what = "annotation" if len(bad) == 1 else "annotations"
    return Violation("seccompProfile", f"forbidden {what} {', '.join(bad)}")


def seccomp_fields(metadata: JSON, spec: JSON) -> Violation | None:
    """Allow only the profiles of the runtime and of the host."""
    del metadata
    field = "seccompProfile"
    names = names_of(spec, lambda each: not _has_good_profile(each, field))
    who = setters(pod=not _has_good_profile(spec, field), names=names)
    if not who:
        return None
    values = quoted(sorted(_bad_profiles(spec, field)))
    detail = f"{who} must not set securityContext.seccompProfile.type to {values}"
    return Violation(field, detail)


class _Sysctls:
    """Allows some sysctls."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        self._allowed = allowed

    def __call__(self, metadata: JSON, spec: JSON) -> Violation | None:
        del metadata
        given = security_of(spec).get("sysctls") or ()
        names = [each.get("name", "") for each in given]
        bad = [name for name in names if name not in self._allowed]
        return Violation("forbidden sysctls", ", ".join(bad)) if bad else None


BASELINE_CHECKS: Final = (
    Check("appArmorProfile", ((0, _app_armor),)),
    Check("capabilities_baseline", ((0, _capabilities),)),
    Check("privileged", ((0, _privileged),)),
    Check("procMount", ((0, proc_mount), (35, _proc_mount_1_35))),
    Check("seLinuxOptions", ((0, _selinux), (31, _selinux_1_31))),
    Check("seccompProfile_baseline", ((0, _seccomp_annotations), (19, seccomp_fields))),
    Check(
        "sysctls",
        (
            (0, _Sysctls(_SYSCTLS)),
            (27, _Sysctls(_SYSCTLS_1_27)),
            (29, _Sysctls(_SYSCTLS_1_29)),
            (32, _Sysctls(_SYSCTLS_1_32)),
        ),
    ),
)
