"""The variables of containers, the files of volumes, and the objects that fill them.

Upstream: makeEnvironmentVariables in pkg/kubelet/kubelet_pods.go; pkg/kubelet/envvars;
k8s.io/kubernetes/third_party/forked/golang/expansion; pkg/fieldpath; the plugins
configmap, secret and projected in pkg/volume.
"""

import json
import re
from base64 import b64decode
from collections import ChainMap
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import parse_quantity
from controller_manager.devcluster.csi.driver import Waiting
from controller_manager.devcluster.registry.core import secrets
from controller_manager.devcluster.registry.core.cluster import NODES as NODE
from controller_manager.devcluster.registry.core.services import KIND as SERVICE
from controller_manager.devcluster.storage import Key, Storage, key_of

from .events import Reporter, warning
from .node_status import addresses_of, pod_address

_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^)]*)\))")
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The PATH of an image that says nothing else."""
_MASTER: Final = ("default", "kubernetes")
"""The service whose variables all containers have."""
_OF_NODES: Final = ("cpu", "memory", "ephemeral-storage")
"""The resources of which a container without a limit may use all of its node."""


def with_references(text: str, variables: Mapping[str, str]) -> str:
    """Return a text with the values of ``$(NAME)``; ``$$`` stands for ``$``.

    A reference to an unknown variable stays.
    """
    return _REFERENCE.sub(
        lambda found: "$" if found[1] is None else variables.get(found[1], found[0]),
        text,
    )


_ROOT_CA: Final = "kube-root-ca.crt"
"""A config map of a controller that may not run here: pods start without it."""

_ALL: Final = ""
_MISSING: Final = {
    "configmap": "configmap references non-existent config key: ",
    "secret": "references non-existent secret key: ",
}


class _Source(Struct, frozen=True):
    """A config map or a secret that a pod needs, and one of its keys, or all."""

    resource: str
    key: Key
    item: str = _ALL


class Environment:
    """Makes the variables of containers."""

    def __init__(self, storage: Storage, families: Sequence[str]) -> None:
        """Take the families of the pods' addresses."""
        self._collections = {
            "configmap": storage.collection(secrets.CONFIG_MAPS.resource),
            "secret": storage.collection(secrets.SECRETS.resource),
        }
        self._services = storage.collection(SERVICE.resource)
        self._nodes = storage.collection(NODE.resource)
        self._families = families

    def of(self, pod: JSON, container: JSON) -> dict[str, str]:
        """Return the variables that a kubelet would give to a container now."""
        services = self._of_services(pod)
        own: dict[str, str] = {}
        known = ChainMap(own, services)
        for each in container.get("envFrom") or ():
            own.update(self._all_from(pod, each))
        for each in container.get("env") or ():
            value: str | None = with_references(each.get("value", ""), known)
            if source := each.get("valueFrom"):
                value = self._value_from(pod, container, source)
            if value is not None:
                own[each["name"]] = value
        return services | own

    def with_command(self, pod: JSON, container: JSON) -> JSON:
        """Return a container whose command has the values of its references."""
        known = self.of(pod, container)
        return container | {
            name: [with_references(each, known) for each in container.get(name) or ()]
            for name in ("command", "args")
        }

    def _all_from(self, pod: JSON, source: JSON) -> Iterator[tuple[str, str]]:
        data: Mapping[str, str] = {}
        if reference := source.get("configMapRef"):
            data = self._config_map(pod, reference)
        elif reference := source.get("secretRef"):
            data = self._secret(pod, reference)
        for name, value in sorted(data.items()):
            yield source.get("prefix", "") + name, value

    def _value_from(self, pod: JSON, container: JSON, source: JSON) -> str | None:
        if reference := source.get("fieldRef"):
            return self._field(pod, reference["fieldPath"])
        if reference := source.get("resourceFieldRef"):
            return self._resource(pod, container, reference)
        if reference := source.get("configMapKeyRef"):
            return self._config_map(pod, reference).get(reference["key"])
        if reference := source.get("secretKeyRef"):
            return self._secret(pod, reference).get(reference["key"])
        return None

    def _config_map(self, pod: JSON, reference: JSON) -> Mapping[str, str]:
        return self._data("configmap", pod, reference)

    def _secret(self, pod: JSON, reference: JSON) -> Mapping[str, str]:
        return {
            name: b64decode(value).decode(errors="replace")
            for name, value in self._data("secret", pod, reference).items()
        }

    def _data(self, resource: str, pod: JSON, reference: JSON) -> Mapping[str, str]:
        key = pod["metadata"]["namespace"], reference.get("name", "")
        stored = self._collections[resource].get(key)
        return (stored.obj.get("data") or {}) if stored else {}

    def content(
        self, pod: JSON, container: JSON, volume: JSON, path: str
    ) -> str | None:
        """Return the content of a file of a volume, `None` for an unknown one."""
        found = None
        for each in (volume.get("projected") or {}).get("sources") or (volume,):
            for name, source in each.items():
                value = self._of_source(pod, container, name, source, path)
                found = found if value is None else value
        return found

    def _of_source(
        self, pod: JSON, container: JSON, name: str, source: JSON, path: str
    ) -> str | None:
        """Return the content of a file of one source, `None` if it has no such file."""
        if name == "downwardAPI":
            for each in source.get("items") or ():
                if each["path"] == path:
                    return self._value_from(pod, container, each)
            return None
        if name == "configMap":
            data = self._config_map(pod, source)
        elif name == "secret":
            data = self._secret(pod, {"name": source.get("secretName"), **source})
        else:
            return None
        if items := source.get("items"):
            keys = {each["path"]: each["key"] for each in items}
            return data.get(keys.get(path, ""))
        return data.get(path)

    def _field(self, pod: JSON, path: str) -> str | None:
        """Return a field of a pod, `None` for one that pods cannot ask for."""
        for name in ("annotations", "labels"):
            if path == f"metadata.{name}":
                values = sorted((pod["metadata"].get(name) or {}).items())
                return "\n".join(
                    f"{key}={json.dumps(each, ensure_ascii=False)}"
                    for key, each in values
                )
            if path.startswith(f"metadata.{name}['"):
                key = path.removeprefix(f"metadata.{name}['").removesuffix("']")
                return str((pod["metadata"].get(name) or {}).get(key, ""))
        match path.split("."):
            case ["metadata", "name" | "namespace" | "uid" as name]:
                return str(pod["metadata"][name])
            case ["spec", "nodeName" | "serviceAccountName" as name]:
                return str(pod["spec"].get(name, ""))
            case ["status", "hostIP" | "hostIPs" as name]:
                return _shown(name, self._host(pod))
            case ["status", "podIP" | "podIPs" as name]:
                return _shown(name, self._addresses(pod))
        return None

    def _host(self, pod: JSON) -> Sequence[str]:
        node = self._nodes.get(("", pod["spec"].get("nodeName", "")))
        return addresses_of(node.obj) if node is not None else ()

    def _addresses(self, pod: JSON) -> Sequence[str]:
        """Return the addresses that the status of a pod has, or will have."""
        found = [each["ip"] for each in pod.get("status", {}).get("podIPs") or ()]
        if not found and pod["spec"].get("hostNetwork"):
            return self._host(pod)
        return found or [pod_address(pod, each) for each in self._families]

    def _resource(self, pod: JSON, container: JSON, reference: JSON) -> str:
        """Return limits or requests, divided and rounded up."""
        spec, node = pod["spec"], self._nodes.get(("", pod["spec"].get("nodeName", "")))
        if name := reference.get("containerName"):
            every = (*spec.get("initContainers", ()), *spec["containers"])
            container = next(each for each in every if each["name"] == name)
        part, _, name = reference["resource"].partition(".")
        found = "0"
        if part == "limits" and name in _OF_NODES and node is not None:
            found = node.obj["status"].get("allocatable", {}).get(name, found)
        if part == "limits":
            found = _listed(spec, part, name, found)
        amount = parse_quantity(str(_listed(container, part, name, found)))
        divisor = parse_quantity(str(reference.get("divisor") or "0"))
        unit = 1 if divisor.is_zero else divisor.value
        if name == "cpu":
            unit = 1000 if divisor.is_zero else divisor.milli_value
            return str(-(-amount.milli_value // unit))
        return str(-(-amount.value // unit))

    def _of_services(self, pod: JSON) -> dict[str, str]:
        """Return the variables about the services of a pod's namespace."""
        found: dict[str, str] = {}
        links = pod["spec"].get("enableServiceLinks", True)
        for stored in self._services:
            key = key_of(stored.obj)
            if key == _MASTER or (links and key[0] == pod["metadata"]["namespace"]):
                found.update(_of_service(stored.obj))
        return found

    # Missing config maps and secrets

    def problem_of_container(self, pod: JSON, container: JSON) -> str:
        """Return why the variables of a container cannot be made, empty if they can."""
        for source in _of_container(pod, container):
            data = self._keys(source)
            if data is None:
                return _not_found(source)
            if source.item and source.item not in data:
                namespace, name = source.key
                kind = "ConfigMap" if source.resource == "configmap" else "Secret"
                return f"couldn't find key {source.item} in {kind} {namespace}/{name}"
        return ""

    def problem_of_volumes(self, pod: JSON) -> tuple[str, str] | None:
        """Return a volume that cannot be mounted, and the reason; `None` if all can."""
        for volume in pod["spec"].get("volumes", ()):
            for source in _of_volume(pod, volume):
                data = self._keys(source)
                if data is None:
                    return volume["name"], _not_found(source)
                if source.item and source.item not in data:
                    return volume["name"], _MISSING[source.resource] + source.item
        return None

    def _keys(self, source: _Source) -> Container[str] | None:
        """Return the keys of an object, `None` if it does not exist."""
        stored = self._collections[source.resource].get(source.key)
        if stored is None:
            return None
        obj = stored.obj
        return {*(obj.get("data") or ()), *(obj.get("binaryData") or ())}


def variables_of_runtime(pod: JSON) -> dict[str, str]:
    """Return the variables that a container has besides those of its kubelet."""
    spec = pod["spec"]
    host = spec.get("hostname") or pod["metadata"]["name"]
    host = spec.get("nodeName", "") if spec.get("hostNetwork") else host
    return {"PATH": _PATH, "HOSTNAME": host[:63].rstrip("-."), "HOME": "/root"}


def _shown(name: str, addresses: Sequence[str]) -> str:
    return ",".join(addresses if name.endswith("s") else addresses[:1])


def _listed(owner: JSON, part: str, name: str, default: str) -> str:
    listed = (owner.get("resources") or {}).get(part) or {}
    return str(listed.get(name, default))


def _of_service(service: JSON) -> Iterator[tuple[str, str]]:
    """Yield the variables about a service that has an address of its own."""
    address, ports = service["spec"].get("clusterIP"), service["spec"].get("ports")
    if address in (None, "", "None") or not ports:
        return
    name = _variable(service["metadata"]["name"])
    host = f"[{address}]" if ":" in address else address
    yield f"{name}_SERVICE_HOST", address
    yield f"{name}_SERVICE_PORT", str(ports[0]["port"])
    for each in ports:
        if each.get("name"):
            key = f"{name}_SERVICE_PORT_{_variable(each['name'])}"
            yield key, str(each["port"])
    for number, each in enumerate(ports):
        protocol, port = each.get("protocol", "TCP"), str(each["port"])
        url = f"{protocol.lower()}://{host}:{port}"
        prefix = f"{name}_PORT_{port}_{protocol.upper()}"
        if number == 0:
            yield f"{name}_PORT", url
        yield prefix, url
        yield f"{prefix}_PROTO", protocol.lower()
        yield f"{prefix}_PORT", port
        yield f"{prefix}_ADDR", address


def _variable(name: str) -> str:
    return name.replace("-", "_").upper()


# The pods that wait for config maps and secrets.


class Sources:
    """Tells kubelets when the config maps and secrets of their pods may exist.

    Upstream kubelets poll; here a change of an object that a pod waits for makes a
    kubelet check again.
    """

    def __init__(self, environment: Environment, report: Reporter) -> None:
        self._environment = environment
        self._report = report
        self._waiting = Waiting()

    def prepare(self, pod: JSON) -> bool:
        """Mount the config maps and secrets of a pod; tell whether all exist.

        If one is missing, an event says so once, and the pod waits.
        """
        problem = self._environment.problem_of_volumes(pod)
        if problem is None:
            self.forget(key_of(pod))
            return True
        if key_of(pod) in self._waiting:
            return False
        volume, why = problem
        message = f'MountVolume.SetUp failed for volume "{volume}" : {why}'
        self._report.kubelet(pod, warning("FailedMount", message))
        self.wait(pod)
        return False

    def wait(self, pod: JSON) -> None:
        """Remember that a pod waits for its config maps and secrets."""
        self._waiting.add(key_of(pod), _sources_of(pod))

    def forget(self, key: Key) -> None:
        """Forget a pod that no longer waits."""
        self._waiting.discard(key)

    def waiting(self) -> Sequence[Key]:
        """Return all pods that wait."""
        return list(self._waiting)

    def waiting_for(self, resource: str, key: Key) -> Sequence[Key]:
        """Return the pods that wait for a ``configmap`` or a ``secret``."""
        return self._waiting.waiting_for((resource, key))


def _not_found(source: _Source) -> str:
    return f'{source.resource} "{source.key[1]}" not found'


def _sources_of(pod: JSON) -> frozenset[tuple[str, Key]]:
    spec = pod["spec"]
    found: set[tuple[str, Key]] = set()
    for each in (*spec.get("initContainers", ()), *spec["containers"]):
        found |= {(each.resource, each.key) for each in _of_container(pod, each)}
    for each in spec.get("volumes", ()):
        found |= {(each.resource, each.key) for each in _of_volume(pod, each)}
    return frozenset(found)


def _of_container(pod: JSON, container: JSON) -> Iterator[_Source]:
    """Yield the needs of a container's variables, in the order of kubelets."""
    for each in container.get("envFrom") or ():
        yield from _source(pod, "configmap", each.get("configMapRef"))
        yield from _source(pod, "secret", each.get("secretRef"))
    for each in container.get("env") or ():
        value = each.get("valueFrom") or {}
        for resource, field in (
            ("configmap", "configMapKeyRef"),
            ("secret", "secretKeyRef"),
        ):
            reference = value.get(field)
            yield from _source(pod, resource, reference, (reference or {}).get("key"))


def _of_volume(pod: JSON, volume: JSON) -> Iterator[_Source]:
    """Yield the needs of a volume, also of a projected volume."""
    parts = (volume.get("projected") or {}).get("sources") or ()
    for each in (volume, *parts):
        yield from _items(pod, "configmap", each.get("configMap"))
        yield from _items(pod, "secret", each.get("secret"))


def _items(pod: JSON, resource: str, reference: JSON | None) -> Iterator[_Source]:
    if not reference:
        return
    items = reference.get("items") or ()
    for each in items:
        yield from _source(pod, resource, reference, each.get("key"))
    if not items:
        yield from _source(pod, resource, reference)


def _source(
    pod: JSON, resource: str, reference: JSON | None, item: str | None = _ALL
) -> Iterator[_Source]:
    if not reference or reference.get("optional"):
        return
    name = reference.get("secretName") or reference.get("name") or ""
    if name != _ROOT_CA:
        yield _Source(resource, (pod["metadata"]["namespace"], name), item or _ALL)
