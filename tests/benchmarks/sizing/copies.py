"""Copies of a settled workload, stored without admission.

The development cluster would take half an hour to create 150,000 pods through its API.
"""

import re
import uuid
from typing import Final

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.storage import Storage

_NAMESPACE: Final = "bench"
_OF_A_NAMESPACE: Final = 300
"""Workloads of a namespace: 3,000 pods, as in upstream's load test.

kube-controller-manager looks at all pods and services of a namespace when one changes.
"""

_PARTS: Final = (
    "deployments.apps",
    "replicasets.apps",
    "services",
    "endpoints",
    "endpointslices.discovery.k8s.io",
    "pods",
)
"""The resources of a workload. The manager has made most of its objects."""

_FIRST_UID: Final = 2**66
_POD_ADDRESSES: Final = 128
_SERVICE_ADDRESSES: Final = 104
"""The second number of the first address, for example of 10.128.0.0."""


class Copies:
    """Copies of all objects of one workload, each copy with a name of its own.

    Each uid, address and node is another one, too, wherever an object mentions it, and
    each 300 workloads have a namespace. So a manager finds nothing to do.
    """

    def __init__(self, storage: Storage) -> None:
        """Take the storage of the API server."""
        self._storage = storage

    def add(self, name: str, count: int, nodes: int) -> None:
        """Copy the workload so often, and spread the pods over so many nodes."""
        parts = {each: self._objects(each, name) for each in _PARTS}
        mentions = _Mentions(parts, nodes)
        words = sorted([name, *mentions.in_copy(0)], key=len, reverse=True)
        split = re.compile(f"({'|'.join(map(re.escape, words))})").split
        originals = [
            (resource, obj, split(msgspec.json.encode(obj).decode()))
            for resource, found in parts.items()
            for obj in found
        ]
        for number in range(count):
            new = {name: f"copy-{number:06}", **mentions.in_copy(number)}
            for resource, original, pieces in originals:
                text = "".join(new.get(each, each) for each in pieces)
                obj = _shared(msgspec.json.decode(text), original)
                key = (namespace_of(number), obj["metadata"]["name"])
                self._storage.collection(resource).put(key, obj)

    def _objects(self, resource: str, name: str) -> list[JSON]:
        return [
            each.obj
            for each in self._storage.collection(resource)
            if each.obj["metadata"]["name"].startswith(name)
        ]


def _shared(obj: JSON, original: JSON) -> JSON:
    """Return an object with the equal parts of the original's spec: it saves 30 kB."""
    old, new = original.get("spec", {}), obj.get("spec", {})
    same = {name: old[name] for name in new if new[name] == old.get(name)}
    return {**obj, "spec": {**new, **same}} if same else obj


class _Mentions:
    """The texts that differ between copies, as JSON with their quotation marks."""

    def __init__(self, parts: dict[str, list[JSON]], nodes: int) -> None:
        self._nodes = nodes
        self._uids = [
            each["metadata"]["uid"] for found in parts.values() for each in found
        ]
        self._services = [each["spec"]["clusterIP"] for each in parts["services"]]
        self._pods = [each["status"]["podIP"] for each in parts["pods"]]
        self._hosts = sorted({each["spec"]["nodeName"] for each in parts["pods"]})

    def in_copy(self, number: int) -> dict[str, str]:
        """Return the texts of the original, each with the one of a copy."""
        new = {_NAMESPACE: namespace_of(number)}
        for position, uid in enumerate(self._uids):
            unique = _FIRST_UID + number * len(self._uids) + position
            new[uid] = str(uuid.UUID(int=unique, version=4))
        for addresses, first in (
            (self._pods, _POD_ADDRESSES),
            (self._services, _SERVICE_ADDRESSES),
        ):
            for position, address in enumerate(addresses):
                new[address] = _address(first, number * len(addresses) + position)
        for position, host in enumerate(self._hosts):
            place = number * len(self._hosts) + position
            new[host] = f"node-{place % self._nodes}"
        return {f'"{old}"': f'"{text}"' for old, text in new.items()}


def namespace_of(number: int) -> str:
    """Return the namespace of a copy; the first ones are in that of the original."""
    index = number // _OF_A_NAMESPACE
    return f"{_NAMESPACE}-{index}" if index else _NAMESPACE


def _address(first: int, number: int) -> str:
    return f"10.{first + number // 65536}.{number // 256 % 256}.{number % 256}"
