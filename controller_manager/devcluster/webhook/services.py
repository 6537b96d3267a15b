"""The addresses behind a service that a webhook's configuration names.

A real API server connects to the cluster IP, but this cluster has no proxy. So the
addresses come from the Endpoints and the EndpointSlices of the service, as with
``--enable-aggregator-routing`` (pkg/util/proxy). Tests serve them on localhost, or name
a program there by the annotation of `forwards`.
"""

from collections.abc import Iterator

from controller_manager.devcluster.proxying import (
    Address,
    ForwardError,
    service_forward,
)
from controller_manager.devcluster.server.storage import Storage

_SERVICE_LABEL = "kubernetes.io/service-name"


class UnresolvedError(Exception):
    """A service has no address; the message is upstream's."""


def addresses_of(
    storage: Storage, namespace: str, name: str, port: int
) -> list[Address]:
    """Return the addresses and ports of a service's pods for one of its ports.

    Raises UnresolvedError.
    """
    stored = storage.collection("services").get((namespace, name))
    if stored is None:
        raise UnresolvedError(f'service "{name}" not found')
    spec = stored.obj.get("spec", {})
    if spec.get("type") == "ExternalName":
        return [(str(spec.get("externalName", "")), port)]
    known = next((each for each in spec.get("ports", ()) if each["port"] == port), None)
    if known is None:
        raise UnresolvedError(f'no service port {port} found for service "{name}"')
    try:
        forward = service_forward(storage, stored.obj, str(port))
    except ForwardError as error:
        raise UnresolvedError(str(error)) from None
    if forward:
        return [forward]
    wanted = known.get("name", "")
    found = [*_of_endpoints(storage, (namespace, name), wanted)]
    found += _of_slices(storage, (namespace, name), wanted)
    if not found:
        raise UnresolvedError(f'no endpoints available for service "{name}"')
    return sorted(set(found))


def _of_endpoints(
    storage: Storage, key: tuple[str, str], port: str
) -> Iterator[Address]:
    stored = storage.collection("endpoints").get(key)
    for subset in stored.obj.get("subsets") or () if stored else ():
        for each in subset.get("ports") or ():
            if each.get("name", "") == port:
                for address in subset.get("addresses") or ():
                    yield address["ip"], each["port"]


def _of_slices(storage: Storage, key: tuple[str, str], port: str) -> Iterator[Address]:
    namespace, name = key
    for stored in storage.collection("endpointslices.discovery.k8s.io"):
        metadata = stored.obj["metadata"]
        labels = metadata.get("labels", {})
        if metadata["namespace"] != namespace or labels.get(_SERVICE_LABEL) != name:
            continue
        for each in stored.obj.get("ports") or ():
            if (each.get("name") or "") == port and each.get("port"):
                for endpoint in stored.obj.get("endpoints") or ():
                    if (endpoint.get("conditions") or {}).get("ready") is not False:
                        for address in endpoint["addresses"]:
                            yield address, each["port"]
