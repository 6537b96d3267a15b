"""Programs on this machine that stand for the containers of pods.

The annotation ``devcluster/forward`` of a pod or a service names the address of such a
program. Port-forward, the proxies of pods and services, webhooks and aggregated API
servers connect to it.
"""

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.storage.storage import Storage

Address = tuple[str, int]

ANNOTATION: Final = "devcluster/forward"
HOW: Final = (
    f"run the program on this machine, and set the annotation {ANNOTATION} of the pod, "
    "or of its service, to its address, such as 127.0.0.1:8080"
)
"""What a user does to connect to a port."""

_EXPECTED: Final = (
    'an address of this machine, such as "127.0.0.1:8080", or several by port, such as '
    '"80=127.0.0.1:8080,metrics=127.0.0.1:9090"'
)
_LONGEST: Final = 100
_MOST_PORT: Final = 65535


class ForwardError(Exception):
    """An annotation cannot be understood; the message names it."""


def forward_of(obj: JSON, ports: Iterable[str]) -> Address | None:
    """Return the address that an object's annotation has for a port.

    `ports` are the number and the name of the port. An address without a port is for
    all. Raises ForwardError.
    """
    text = (obj["metadata"].get("annotations") or {}).get(ANNOTATION)
    if text is None:
        return None
    found = dict(_entries(str(text)))
    return next((found[each] for each in (*ports, "") if each in found), None)


def pod_forward(storage: Storage, pod: JSON, port: int) -> Address | None:
    """Return the address for a port of a pod, by its annotation or that of a service.

    Returns `None` if no annotation names one. Raises ForwardError.
    """
    names = [
        str(each.get("name", ""))
        for container in pod["spec"]["containers"]
        for each in container.get("ports") or ()
        if each["containerPort"] == port
    ]
    if found := forward_of(pod, (str(port), *filter(None, names))):
        return found
    for stored in storage.collection("services"):
        service = stored.obj
        if _selects(service, pod):
            for each in service["spec"].get("ports") or ():
                if each.get("targetPort", each["port"]) in (port, *names) and (
                    found := forward_of(service, _keys(each))
                ):
                    return found
    return None


def has_forward(storage: Storage, pod: JSON) -> bool:
    """Tell whether a pod, or a service that selects it, has the annotation."""
    objects = [pod]
    objects += [
        each.obj for each in storage.collection("services") if _selects(each.obj, pod)
    ]
    return any(
        ANNOTATION in (each["metadata"].get("annotations") or ()) for each in objects
    )


def service_forward(storage: Storage, service: JSON, port: str) -> Address | None:
    """Return the address for a port of a service, by its annotation or that of a pod.

    `port` is a number, a name, or empty for the first port. Returns `None` if no
    annotation names one. Raises ForwardError.
    """
    ports = service["spec"].get("ports") or ()
    known = next((each for each in ports if port in ("", *_keys(each))), None)
    if known is None:
        return None
    if found := forward_of(service, _keys(known)):
        return found
    for stored in storage.collection("pods"):
        if _selects(service, stored.obj):
            target = str(known.get("targetPort", known["port"]))
            if found := forward_of(stored.obj, (target,)):
                return found
    return None


def _keys(port: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the number of a service's port, and its name if it has one."""
    return tuple(filter(None, (str(port["port"]), port.get("name", ""))))


def _selects(service: JSON, pod: JSON) -> bool:
    selector, metadata = service["spec"].get("selector"), pod["metadata"]
    if not selector or metadata["namespace"] != service["metadata"]["namespace"]:
        return False
    return bool(selector.items() <= (metadata.get("labels") or {}).items())


def _entries(text: str) -> Iterator[tuple[str, Address]]:
    for entry in text.split(","):
        port, _, address = entry.strip().rpartition("=")
        host, colon, number = address.strip().rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        is_port = number.isascii() and number.isdigit() and len(number) <= len("65535")
        if not (colon and is_port and 0 < int(number) <= _MOST_PORT):
            raise _wrong(text, _EXPECTED)
        if not _is_loopback(host):
            raise _wrong(text, f"{_EXPECTED}; only loopback addresses are allowed")
        yield port.strip(), (host, int(number))


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _wrong(text: str, expected: str) -> ForwardError:
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    return ForwardError(f"annotation {ANNOTATION}: must be {expected}, it is {shown!r}")
