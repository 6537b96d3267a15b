"""Checks of the level ``baseline`` for the host: namespaces, ports, volumes."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON

from .checks import (
    Check,
    Violation,
    containers,
    containers_of,
    counted,
    names_of,
    quoted,
    security_of,
    setters,
)

_NAMESPACES: Final = ("hostNetwork", "hostPID", "hostIPC")
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS: Final = ("postStart", "preStop")
_HANDLERS: Final = ("httpGet", "tcpSocket")


def _host_namespaces(metadata: JSON, spec: JSON) -> Violation | None:
    del metadata
    shared = [f"{name}=true" for name in _NAMESPACES if spec.get(name)]
    return Violation("host namespaces", ", ".join(shared)) if shared else None


def _host_path_volumes(metadata: JSON, spec: JSON) -> Violation | None:
    del metadata
    volumes = spec.get("volumes") or ()
    names = [each.get("name", "") for each in volumes if "hostPath" in each]
    if not names:
        return None
    return Violation("hostPath volumes", counted("volume", "volumes", names))


def _host_ports(metadata: JSON, spec: JSON) -> Violation | None:
    del metadata
    ports: set[str] = set()
    names = []
    for container in containers_of(spec):
        found = {each["hostPort"] for each in _ports(container) if each.get("hostPort")}
        if found:
            names.append(container.get("name", ""))
            ports |= {str(each) for each in found}
    if not names:
        return None
    uses = "uses" if len(names) == 1 else "use"
    what = "hostPort" if len(ports) == 1 else "hostPorts"
    listed = ", ".join(sorted(ports))
    return Violation("hostPort", f"{containers(names)} {uses} {what} {listed}")


def _ports(container: JSON) -> list[JSON]:
    found: list[JSON] = container.get("ports") or []
    return found


def _host_probes(metadata: JSON, spec: JSON) -> Violation | None:
    del metadata
    by_name = {
        each.get("name", ""): found
        for each in containers_of(spec)
        if (found := {*_hosts(each)})
    }
    if not by_name:
        return None
    names = sorted(by_name)
    hosts = sorted(set[str]().union(*by_name.values()))
    uses = "uses" if len(names) == 1 else "use"
    reason = "probe or lifecycle host"
    what = reason if len(hosts) == 1 else f"{reason}s"
    return Violation(reason, f"{containers(names)} {uses} {what} {quoted(hosts)}")


def _hosts(container: JSON) -> Iterator[str]:
    """Yield the hosts that probes and hooks name."""
    lifecycle = container.get("lifecycle") or {}
    handlers = [container.get(name) for name in _PROBES]
    handlers += [lifecycle.get(name) for name in _HOOKS]
    for handler in handlers:
        for name in _HANDLERS:
            if host := ((handler or {}).get(name) or {}).get("host"):
                yield host


def _host_process(metadata: JSON, spec: JSON) -> Violation | None:
    del metadata
    names = names_of(spec, _is_host_process)
    who = setters(pod=_is_host_process(spec), names=names)
    if not who:
        return None
    detail = f"{who} must not set securityContext.windowsOptions.hostProcess=true"
    return Violation("hostProcess", detail)


def _is_host_process(holder: JSON) -> bool:
    options = security_of(holder).get("windowsOptions") or {}
    return bool(options.get("hostProcess"))


HOST_CHECKS: Final = (
    Check("hostNamespaces", ((0, _host_namespaces),)),
    Check("hostPathVolumes", ((0, _host_path_volumes),)),
    Check("hostPorts", ((0, _host_ports),)),
    Check("hostProbesAndHostLifecycle", ((34, _host_probes),)),
    Check("windowsHostProcess", ((0, _host_process),)),
)
