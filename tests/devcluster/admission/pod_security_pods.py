"""Random pods, with many fields that the Pod Security Standards look at."""

import random
from typing import Any

from controller_manager.api.json_objects import JSON

_CAPABILITIES = ("ALL", "CHOWN", "NET_ADMIN", "NET_BIND_SERVICE", "SYS_TIME", "KILL")
_PROFILES = ("RuntimeDefault", "Localhost", "Unconfined", "Other")
_SYSCTLS = (
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_rmem",
    "kernel.msgmax",
)
_TYPES = ("", "container_t", "container_engine_t", "spc_t", "other_t")
_VOLUMES = ("configMap", "emptyDir", "hostPath", "nfs", "image", "iscsi")
_ANNOTATIONS = (
    "container.apparmor.security.beta.kubernetes.io/a",
    "container.apparmor.security.beta.kubernetes.io/b",
    "seccomp.security.alpha.kubernetes.io/pod",
    "container.seccomp.security.alpha.kubernetes.io/a",
    "container.seccomp.security.alpha.kubernetes.io/x",
)
_VALUES = ("", "runtime/default", "localhost/x", "unconfined", 'odd"', "docker/default")


def random_pod(rng: random.Random) -> tuple[JSON, JSON]:
    metadata: JSON = {}
    if rng.random() < 0.3:
        keys = rng.sample(_ANNOTATIONS, rng.randint(0, 3))
        metadata["annotations"] = {key: rng.choice(_VALUES) for key in keys}
    spec: JSON = {
        "containers": [_container(rng, name) for name in "abc"[: rng.randint(1, 3)]]
    }
    if rng.random() < 0.3:
        spec["initContainers"] = [_container(rng, "i")]
    if rng.random() < 0.2:
        spec["ephemeralContainers"] = [_container(rng, "e")]
    if rng.random() < 0.5:
        spec["securityContext"] = {**_security(rng), **_sysctls(rng)}
    if rng.random() < 0.4:
        names = "vwxyz"[: rng.randint(0, 4)]
        spec["volumes"] = [_volume(rng, name) for name in names]
    for name in ("hostNetwork", "hostPID", "hostIPC", "hostUsers"):
        if rng.random() < 0.2:
            spec[name] = rng.random() < 0.5
    if rng.random() < 0.2:
        spec["os"] = {"name": rng.choice(("linux", "windows"))}
    return metadata, spec


def _sysctls(rng: random.Random) -> JSON:
    if rng.random() < 0.6:
        return {}
    names = rng.choices(_SYSCTLS, k=rng.randint(0, 3))
    return {"sysctls": [{"name": name, "value": "1"} for name in names]}


def _volume(rng: random.Random, name: str) -> JSON:
    if rng.random() < 0.1:
        return {"name": name}
    return {"name": name, rng.choice(_VOLUMES): {}}


def _container(rng: random.Random, name: str) -> JSON:
    container: JSON = {"name": name}
    if rng.random() < 0.8:
        container["securityContext"] = _security(rng) if rng.random() < 0.95 else None
    if rng.random() < 0.3:
        ports = rng.choices((0, 80, 443, 8080), k=rng.randint(0, 3))
        container["ports"] = [
            {"containerPort": 1, **({"hostPort": port} if port else {})}
            for port in ports
        ]
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if rng.random() < 0.15:
            container[probe] = _handler(rng)
    if rng.random() < 0.2:
        hook = rng.choice(("postStart", "preStop"))
        container["lifecycle"] = {hook: _handler(rng)}
    return container


def _handler(rng: random.Random) -> JSON:
    host = rng.choice(({}, {"host": ""}, {"host": "h"}, {"host": "127.0.0.1"}))
    return {rng.choice(("httpGet", "tcpSocket", "exec")): dict(host)}


def _security(rng: random.Random) -> JSON:
    """Return a security context of a pod or of a container; each has all fields."""
    capabilities = {
        name: rng.sample(_CAPABILITIES, rng.randint(0, 3))
        for name in ("add", "drop")
        if rng.random() < 0.6
    }
    selinux = {
        "type": rng.choice(_TYPES),
        **({"user": rng.choice(("", "u"))} if rng.random() < 0.4 else {}),
        **({"role": rng.choice(("", "r"))} if rng.random() < 0.4 else {}),
    }
    fields: dict[str, Any] = {
        "allowPrivilegeEscalation": rng.random() < 0.3,
        "privileged": rng.random() < 0.3,
        "runAsNonRoot": rng.random() < 0.6,
        "runAsUser": rng.choice((0, 1, 1000)),
        "procMount": rng.choice(("Default", "Unmasked")),
        "capabilities": capabilities,
        "seLinuxOptions": selinux,
        "seccompProfile": {"type": rng.choice(_PROFILES)},
        "appArmorProfile": {"type": rng.choice(_PROFILES)},
        "windowsOptions": {"hostProcess": rng.random() < 0.5},
    }
    return {name: value for name, value in fields.items() if rng.random() < 0.4}
