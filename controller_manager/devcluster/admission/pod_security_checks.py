"""The checks of the Pod Security Standards, as one table.

Upstream: k8s.io/pod-security-admission/policy.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import shown

PRIVILEGED: Final = "privileged"
BASELINE: Final = "baseline"
RESTRICTED: Final = "restricted"
LEVELS: Final = (PRIVILEGED, BASELINE, RESTRICTED)
"""From the least strict one to the strictest one."""

CONTAINER_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")
SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_CONTAINER: Final = "container.seccomp.security.alpha.kubernetes.io/"

_NEWEST: Final = 35
"""The last minor version in which a check has changed."""


class Violation(NamedTuple):
    """The violation of a check by a pod: a short reason, and the details."""

    reason: str
    detail: str

    def __str__(self) -> str:
        """Return both, as the message about one pod shows them."""
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


def violations(level: str, minor: int, metadata: JSON, spec: JSON) -> list[Violation]:
    """Return the violations of a level, as of a minor version, by a pod.

    Those of ``baseline`` come first, then the others, each part in the order of the
    names of the checks.
    """
    if level == PRIVILEGED:
        return []
    found = (
        each.form(metadata, spec)
        for each in _rows(level, min(minor, _NEWEST))
        if each.unless is None or not each.unless(spec)
    )
    return [each for each in found if each is not None]


_Form = Callable[[JSON, JSON], Violation | None]
"""Takes the metadata and the spec of a pod."""

_Bad = Callable[[JSON], Iterable[Any] | None]
"""Returns the forbidden values of a pod's spec, a container or a volume.

`None` stands for none.
"""


class _Row(NamedTuple):
    """A form of a check, from a minor version on until the next form."""

    level: str
    name: str
    since: int
    form: _Form
    unless: Callable[[JSON], bool] | None = None
    """Tells which pods pass without a look."""


# The parts of a pod, and the words for them.


def _containers_of(spec: JSON) -> Iterator[JSON]:
    """Yield all containers of a pod, in the order in which upstream visits them."""
    for name in CONTAINER_LISTS:
        yield from spec.get(name) or ()


def _security(holder: JSON, *path: str) -> Any:
    found: Any = holder.get("securityContext") or {}
    for each in path:
        found = (found or {}).get(each)
    return found


def _profile(holder: JSON, field: str) -> str | None:
    """Return the type of a profile of a pod or container, `None` without one."""
    profile = _security(holder, field)
    return None if profile is None else str(profile.get("type", ""))


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _counted(one: str, names: Sequence[str]) -> str:
    """Return ``container "a"`` or ``containers "a", "b"``."""
    return f"{one if len(names) == 1 else f'{one}s'} {_quoted(names)}"


# The shapes of checks.


def _setters(spec: JSON, bad: _Bad, of: str = "") -> tuple[list[str], list[Any], str]:
    """Return the parts with forbidden values in words, the values, and a verb.

    The parts are the pod and its containers, or only `of` one kind: ``container`` or
    ``volume``.
    """
    parts = spec.get("volumes") or () if of == "volume" else _containers_of(spec)
    found = [(each.get("name", ""), values) for each in parts if (values := bad(each))]
    names = [name for name, _ in found]
    who = [_counted(of or "container", names)] if found else []
    values = [value for _, each in found for value in each]
    if not of and (of_pod := bad(spec)):
        who, values = ["pod", *who], [*of_pod, *values]
    return who, values, "uses" if len(names) == 1 else "use"


def _forbid(reason: str, text: str, bad: _Bad, of: str = "") -> _Form:
    """Return a check that forbids values.

    In the text, ``{who}`` names the parts that have some, ``{values}`` has the values
    in quotation marks, ``{plain}`` without. ``{use}`` and ``{s}`` agree with their
    numbers.
    """

    def form(metadata: JSON, spec: JSON) -> Violation | None:
        del metadata
        who, found, use = _setters(spec, bad, of)
        if not who:
            return None
        values = sorted({*map(str, found)})
        detail = text.format(
            who=" and ".join(who),
            values=_quoted(values),
            plain=", ".join(values),
            use=use,
            s="" if len(values) == 1 else "s",
        )
        return Violation(reason, detail)

    return form


def _require(
    forbidden: _Form, text: str, value: Callable[[JSON], Any], reason: str
) -> _Form:

    def form(metadata: JSON, spec: JSON) -> Violation | None:
        if found := forbidden(metadata, spec):
            return found
        silent = [
            each.get("name", "") for each in _containers_of(spec) if value(each) is None
        ]
        if value(spec) is not None or not silent:
            return None
        who = f"pod or {_counted('container', silent)}"
        return Violation(reason, f"{who} must set securityContext.{text}")

    return form


# The values that are forbidden.


def _added_but(allowed: frozenset[str]) -> _Bad:
    return lambda each: {*(_security(each, "capabilities", "add") or ())} - allowed


def _if(is_bad: Callable[[JSON], bool]) -> _Bad:
    """Return a forbidden value that the text does not name."""
    return lambda holder: [""] if is_bad(holder) else []


def _bad_profile(field: str) -> _Bad:
    return lambda holder: [
        each
        for each in (_profile(holder, field),)
        if each not in (None, "RuntimeDefault", "Localhost")
    ]


def _proc_mount(container: JSON) -> list[str]:
    value = _security(container, "procMount")
    return [] if value in (None, "Default") else [value]


def _hosts(container: JSON) -> list[str]:
    lifecycle = container.get("lifecycle") or {}
    probes = ("livenessProbe", "readinessProbe", "startupProbe")
    handlers = [container.get(each) for each in probes]
    handlers += [lifecycle.get(each) for each in ("postStart", "preStop")]
    return [
        host
        for handler in handlers
        for each in ("httpGet", "tcpSocket")
        if (host := ((handler or {}).get(each) or {}).get("host"))
    ]


def _host_ports(container: JSON) -> list[int]:
    ports = container.get("ports") or ()
    return [each["hostPort"] for each in ports if each.get("hostPort")]


def _restricted_type(volume: JSON) -> list[str]:
    if _VOLUMES & volume.keys():
        return []
    return [next((name for name in volume if name != "name"), "unknown")]


# The checks that have no common shape.


def _app_armor(metadata: JSON, spec: JSON) -> Violation | None:
    who, found, _ = _setters(spec, _bad_profile("appArmorProfile"))
    annotations = sorted(
        f"{key}={shown(value)}"
        for key, value in (metadata.get("annotations") or {}).items()
        if key.startswith("container.apparmor.security.beta.kubernetes.io/")
        and value not in ("", "runtime/default")
        and not value.startswith("localhost/")
    )
    if annotations:
        who.append("annotation" if len(annotations) == 1 else "annotations")
    if not who:
        return None
    values = [*sorted({*found}), *annotations]
    reason = f"forbidden AppArmor profile{'s' if len(values) > 1 else ''}"
    text = f"must not set AppArmor profile type to {_quoted(values)}"
    return Violation(reason, f"{' and '.join(who)} {text}")


def _host_namespaces(metadata: JSON, spec: JSON) -> Violation | None:
    del metadata
    names = ("hostNetwork", "hostPID", "hostIPC")
    found = [f"{name}=true" for name in names if spec.get(name)]
    return Violation("host namespaces", ", ".join(found)) if found else None


def _host_probes(metadata: JSON, spec: JSON) -> Violation | None:
    """Check the probes; upstream sorts the containers here only."""
    names = {each.get("name", ""): each for each in _containers_of(spec)}
    ordered = {"containers": [each for _, each in sorted(names.items())]}
    return _HOST_PROBES(metadata, ordered)


def _seccomp_annotations(metadata: JSON, spec: JSON) -> Violation | None:
    """Check the annotations that were the fields' predecessors before 1.19."""
    annotations = metadata.get("annotations") or {}
    names = [each.get("name", "") for each in _containers_of(spec)]
    keys = {f"{SECCOMP_CONTAINER}{each}" for each in names}
    bad = sorted(
        f"{key}={shown(annotations[key])}"
        for key in {SECCOMP_POD, *keys} & annotations.keys()
        if annotations[key] not in ("runtime/default", "docker/default")
        and not annotations[key].startswith("localhost/")
    )
    if not bad:
        return None
    what = "annotation" if len(bad) == 1 else "annotations"
    return Violation("seccompProfile", f"forbidden {what} {', '.join(bad)}")


def _selinux(*more: str) -> _Form:
    """Return the check of SELinux's options, which allows `more` types."""
    types = {"", "container_t", "container_init_t", "container_kvm_t", *more}

    def bad(holder: JSON) -> list[tuple[str, str]]:
        options = _security(holder, "seLinuxOptions") or {}
        fields = [(each, "") for each in ("user", "role") if options.get(each)]
        type_ = options.get("type", "")
        return fields if type_ in types else [*fields, ("type", type_)]

    def form(metadata: JSON, spec: JSON) -> Violation | None:
        del metadata
        who, found, _ = _setters(spec, bad)
        if not who:
            return None
        names = sorted({name for field, name in found if field == "type"})
        data = [_counted("type", names)] if names else []
        data += [
            f"{each} may not be set" for each in ("user", "role") if (each, "") in found
        ]
        text = f"set forbidden securityContext.seLinuxOptions: {'; '.join(data)}"
        return Violation("seLinuxOptions", f"{' and '.join(who)} {text}")

    return form


def _sysctls(allowed: frozenset[str]) -> _Form:
    def form(metadata: JSON, spec: JSON) -> Violation | None:
        del metadata
        names = [each.get("name", "") for each in _security(spec, "sysctls") or ()]
        bad = [name for name in names if name not in allowed]
        return Violation("forbidden sysctls", ", ".join(bad)) if bad else None

    return form


# The table.


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CAPABILITIES: Final = _words(
    "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE SETFCAP "
    "SETGID SETPCAP SETUID SYS_CHROOT"
)
_VOLUMES: Final = _words(
    "configMap csi downwardAPI emptyDir ephemeral image persistentVolumeClaim "
    "projected secret"
)
_SYSCTLS: Final = _words(
    "kernel.shm_rmid_forced net.ipv4.ip_local_port_range net.ipv4.tcp_syncookies "
    "net.ipv4.ping_group_range net.ipv4.ip_unprivileged_port_start"
)
_SYSCTLS_27: Final = _SYSCTLS | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_29: Final = _SYSCTLS_27 | _words(
    "net.ipv4.tcp_keepalive_time net.ipv4.tcp_fin_timeout "
    "net.ipv4.tcp_keepalive_intvl net.ipv4.tcp_keepalive_probes"
)
_SYSCTLS_32: Final = _SYSCTLS_29 | _words("net.ipv4.tcp_rmem net.ipv4.tcp_wmem")

_MUST_NOT: Final = "{who} must not set securityContext."
_ADDED: Final = "{who} must not include {values} in securityContext.capabilities.add"

_CAPABILITIES_ADDED: Final = _forbid(
    "non-default capabilities", _ADDED, _added_but(_CAPABILITIES), "container"
)
_ESCALATION: Final = _forbid(
    "allowPrivilegeEscalation != false",
    "{who} must set securityContext.allowPrivilegeEscalation=false",
    _if(lambda each: _security(each, "allowPrivilegeEscalation") is not False),
    "container",
)
_HOST_PATHS: Final = _forbid(
    "hostPath volumes", "{who}", _if(lambda each: "hostPath" in each), "volume"
)
_HOST_PORTS: Final = _forbid(
    "hostPort", "{who} {use} hostPort{s} {plain}", _host_ports, "container"
)
_HOST_PROBES: Final = _forbid(
    "probe or lifecycle host",
    "{who} {use} probe or lifecycle host{s} {values}",
    _hosts,
    "container",
)
_HOST_PROCESS: Final = _forbid(
    "hostProcess",
    f"{_MUST_NOT}windowsOptions.hostProcess=true",
    _if(lambda each: bool(_security(each, "windowsOptions", "hostProcess"))),
)
_NON_ROOT: Final = _require(
    _forbid(
        "runAsNonRoot != true",
        f"{_MUST_NOT}runAsNonRoot=false",
        _if(lambda each: _security(each, "runAsNonRoot") is False),
    ),
    "runAsNonRoot=true",
    lambda holder: _security(holder, "runAsNonRoot"),
    reason="runAsNonRoot != true",
)
_PRIVILEGED: Final = _forbid(
    "privileged",
    f"{_MUST_NOT}privileged=true",
    _if(lambda each: bool(_security(each, "privileged"))),
    "container",
)
_PROC_MOUNT: Final = _forbid(
    "procMount", f"{_MUST_NOT}procMount to {{values}}", _proc_mount, "container"
)
_RESTRICTED_VOLUMES: Final = _forbid(
    "restricted volume types",
    "{who} {use} restricted volume type{s} {values}",
    _restricted_type,
    "volume",
)
_SECCOMP: Final = _forbid(
    "seccompProfile",
    f"{_MUST_NOT}seccompProfile.type to {{values}}",
    _bad_profile("seccompProfile"),
)
_SECCOMP_SET: Final = _require(
    _SECCOMP,
    'seccompProfile.type to "RuntimeDefault" or "Localhost"',
    lambda holder: _profile(holder, "seccompProfile"),
    reason="seccompProfile",
)
_USER: Final = _forbid(
    "runAsUser=0",
    "{who} must not set runAsUser=0",
    _if(lambda each: _security(each, "runAsUser") == 0),
)
_NOT_DROPPED: Final = _forbid(
    "unrestricted capabilities",
    '{who} must set securityContext.capabilities.drop=["ALL"]',
    _if(lambda each: "ALL" not in (_security(each, "capabilities", "drop") or ())),
    "container",
)
_ADDED_AT_ALL: Final = _forbid(
    "unrestricted capabilities",
    _ADDED,
    _added_but(_words("NET_BIND_SERVICE")),
    "container",
)


def _capabilities(metadata: JSON, spec: JSON) -> Violation | None:
    checks = (_NOT_DROPPED, _ADDED_AT_ALL)
    found = [each for check in checks if (each := check(metadata, spec))]
    detail = "; ".join(each.detail for each in found)
    return Violation("unrestricted capabilities", detail) if found else None


def _has_user_namespace(spec: JSON) -> bool:
    return spec.get("hostUsers") is False


def _runs_on_windows(spec: JSON) -> bool:
    return bool((spec.get("os") or {}).get("name") == "windows")


_TABLE: Final = (
    _Row(BASELINE, "appArmorProfile", 0, _app_armor),
    _Row(BASELINE, "capabilities_baseline", 0, _CAPABILITIES_ADDED),
    _Row(BASELINE, "hostNamespaces", 0, _host_namespaces),
    _Row(BASELINE, "hostPathVolumes", 0, _HOST_PATHS),
    _Row(BASELINE, "hostPorts", 0, _HOST_PORTS),
    _Row(BASELINE, "hostProbesAndHostLifecycle", 34, _host_probes),
    _Row(BASELINE, "privileged", 0, _PRIVILEGED),
    _Row(BASELINE, "procMount", 0, _PROC_MOUNT),
    _Row(BASELINE, "procMount", 35, _PROC_MOUNT, _has_user_namespace),
    _Row(BASELINE, "seLinuxOptions", 0, _selinux()),
    _Row(BASELINE, "seLinuxOptions", 31, _selinux("container_engine_t")),
    _Row(BASELINE, "seccompProfile_baseline", 0, _seccomp_annotations),
    _Row(BASELINE, "seccompProfile_baseline", 19, _SECCOMP),
    _Row(BASELINE, "sysctls", 0, _sysctls(_SYSCTLS)),
    _Row(BASELINE, "sysctls", 27, _sysctls(_SYSCTLS_27)),
    _Row(BASELINE, "sysctls", 29, _sysctls(_SYSCTLS_29)),
    _Row(BASELINE, "sysctls", 32, _sysctls(_SYSCTLS_32)),
    _Row(BASELINE, "windowsHostProcess", 0, _HOST_PROCESS),
    _Row(RESTRICTED, "allowPrivilegeEscalation", 8, _ESCALATION),
    _Row(RESTRICTED, "allowPrivilegeEscalation", 25, _ESCALATION, _runs_on_windows),
    _Row(RESTRICTED, "capabilities_restricted", 22, _capabilities),
    _Row(RESTRICTED, "capabilities_restricted", 25, _capabilities, _runs_on_windows),
    _Row(RESTRICTED, "procMount_restricted", 35, _PROC_MOUNT),
    _Row(RESTRICTED, "restrictedVolumes", 0, _RESTRICTED_VOLUMES),
    _Row(RESTRICTED, "runAsNonRoot", 0, _NON_ROOT),
    _Row(RESTRICTED, "runAsNonRoot", 35, _NON_ROOT, _has_user_namespace),
    _Row(RESTRICTED, "runAsUser", 23, _USER),
    _Row(RESTRICTED, "runAsUser", 35, _USER, _has_user_namespace),
    _Row(RESTRICTED, "seccompProfile_restricted", 19, _SECCOMP_SET),
    _Row(RESTRICTED, "seccompProfile_restricted", 25, _SECCOMP_SET, _runs_on_windows),
)

_OVERRIDDEN: Final = {
    "capabilities_restricted": "capabilities_baseline",
    "procMount_restricted": "procMount",
    "restrictedVolumes": "hostPathVolumes",
    "seccompProfile_restricted": "seccompProfile_baseline",
}
"""The checks of the level ``baseline`` that those of ``restricted`` replace."""


@cache
def _rows(level: str, minor: int) -> tuple[_Row, ...]:
    """Return the checks of a level in a minor version, in order."""
    found = {
        each.name: each
        for each in _TABLE
        if each.since <= minor and each.level in (BASELINE, level)
    }
    for name in [_OVERRIDDEN[each] for each in found if each in _OVERRIDDEN]:
        found.pop(name, None)
    return tuple(sorted(found.values(), key=lambda each: (each.level, each.name)))
