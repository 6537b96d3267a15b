"""The canonical order of ports and subsets: the order of their hashes.

Upstream sorts by the MD5 of the Go values, as the library spew prints them. So the
Endpoints of both managers have the same order.
"""

from collections.abc import Iterable
from hashlib import md5

from controller_manager.api.core.endpoints import (
    EndpointAddress,
    EndpointPort,
    EndpointSubset,
)
from controller_manager.api.core.v1 import ObjectReference


def hash_of_port(port: EndpointPort) -> bytes:
    """Return the hash by which the ports of a subset are sorted (portsByHash)."""
    return _md5(f"(v1.EndpointPort){_port(port)}")


def hash_of_subset(subset: EndpointSubset) -> bytes:
    """Return the hash by which subsets are sorted (subsetsByHash)."""
    ready = _list(map(_address, subset.addresses or ()))
    not_ready = _list(map(_address, subset.not_ready_addresses or ()))
    ports = _list(map(_port, subset.ports or ()))
    return _md5(
        f"(v1.EndpointSubset){{Addresses:([]v1.EndpointAddress){ready} "
        f"NotReadyAddresses:([]v1.EndpointAddress){not_ready} "
        f"Ports:([]v1.EndpointPort){ports}}}"
    )


def _md5(text: str) -> bytes:
    return md5(text.encode(), usedforsecurity=False).digest()


def _list(entries: Iterable[str]) -> str:
    """Return a list; an empty one is nil in Go, since nothing was appended to it."""
    text = " ".join(entries)
    return f"[{text}]" if text else "<nil>"


def _pointer(value: str | None) -> str:
    return f"(*string){'<nil>' if value is None else value}"


def _port(port: EndpointPort) -> str:
    return (
        f"{{Name:(string){port.name} Port:(int32){port.port} "
        f"Protocol:(v1.Protocol){port.protocol} "
        f"AppProtocol:{_pointer(port.app_protocol)}}}"
    )


def _address(address: EndpointAddress) -> str:
    return (
        f"{{IP:(string){address.ip} Hostname:(string){address.hostname} "
        f"NodeName:{_pointer(address.node_name)} "
        f"TargetRef:(*v1.ObjectReference){_reference(address.target_ref)}}}"
    )


def _reference(reference: ObjectReference | None) -> str:
    if reference is None:
        return "<nil>"
    return (
        f"{{Kind:(string){reference.kind} Namespace:(string){reference.namespace} "
        f"Name:(string){reference.name} UID:(types.UID){reference.uid} "
        f"APIVersion:(string){reference.api_version} "
        f"ResourceVersion:(string){reference.resource_version} "
        f"FieldPath:(string){reference.field_path}}}"
    )
