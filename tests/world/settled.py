"""What must hold for single kinds when the state is final."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON

from .objects import controller_of, is_active, is_deleted, path_of, uid_of
from .world import World

_SIZED: Final = ("replicasets", "replicationcontrollers", "statefulsets")
_OF_PODS: Final = ("statefulsets", "daemonsets")
_KEPT: Final = 10
"""The revisions that are kept by default."""


def unsettled(world: World) -> Iterator[str]:
    """Yield what is not as its object wants it."""
    yield from _uncollected(world)
    yield from _observed(world)
    yield from _sizes(world)
    yield from _histories(world)
    yield from _endpoints(world)


def _uncollected(world: World) -> Iterator[str]:
    """Yield objects whose owners are all gone; of unknown kinds, nobody can tell."""
    objects = world.everything("events")
    uids = {uid_of(each) for each in objects}
    kinds = {each.kind for each in world.kinds()}
    for each in objects:
        owners = each["metadata"].get("ownerReferences", ())
        if any(owner["kind"] not in kinds for owner in owners):
            continue
        if owners and not any(owner["uid"] in uids for owner in owners):
            yield f"{each['kind']} {path_of(each)} was not collected"


def _observed(world: World) -> Iterator[str]:
    """Check that every controller has seen the newest spec."""
    for each in world.everything("events"):
        seen = (each.get("status") or {}).get("observedGeneration")
        if seen is not None and seen != each["metadata"].get("generation"):
            yield f"{each['kind']} {path_of(each)}: its newest spec was not observed"


def _sizes(world: World) -> Iterator[str]:
    """Check that owners have as many pods as they want, and say so."""
    for plural in _SIZED:
        for owner in world.stored(plural):
            pods = [each for each in world.pods_of(uid_of(owner)) if is_active(each)]
            status, wanted = owner.get("status", {}), owner["spec"].get("replicas", 1)
            if not wanted == len(pods) == status.get("replicas", 0):
                yield f"{plural} {path_of(owner)}: {len(pods)} pods, {wanted} wanted"
    for deployment in world.stored("deployments"):
        images = {
            each["spec"]["template"]["spec"]["containers"][0]["image"]
            for each in world.stored("replicasets")
            if controller_of(each) == uid_of(deployment) and each["spec"]["replicas"]
        }
        newest = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
        if images - {newest}:
            yield f"deployment {path_of(deployment)}: {images} run beside {newest}"


def _histories(world: World) -> Iterator[str]:
    """Check that no owner keeps more old revisions than it may."""
    for deployment in world.stored("deployments"):
        old = [
            each
            for each in world.stored("replicasets")
            if controller_of(each) == uid_of(deployment)
            and not each["spec"]["replicas"]
            and _template(each) != _template(deployment)
        ]
        yield from _surplus(deployment, len(old))
    for plural in _OF_PODS:
        for owner in world.stored(plural):
            used = {
                each["metadata"]["labels"].get("controller-revision-hash")
                for each in world.pods_of(uid_of(owner))
            }
            unused = [
                each
                for each in world.stored("controllerrevisions")
                if controller_of(each) == uid_of(owner)
                and each["metadata"]["name"] not in used
                and each["metadata"]["labels"].get("controller-revision-hash")
                not in used
            ]
            # The newest one has no pods where none is wanted.
            yield from _surplus(owner, len(unused) - (not used))


def _template(owner: JSON) -> str:
    containers: list[JSON] = owner["spec"]["template"]["spec"]["containers"]
    return str(containers[0]["image"])


def _surplus(owner: JSON, count: int) -> Iterator[str]:
    most = owner["spec"].get("revisionHistoryLimit", _KEPT)
    if count > most:
        yield f"{owner['kind']} {path_of(owner)}: {count} old revisions, {most} allowed"


def _endpoints(world: World) -> Iterator[str]:
    """Check that the slices of a service have its ready pods, and no others."""
    for service in world.stored("services"):
        selector = service["spec"].get("selector")
        if not selector:
            continue
        namespace, name = service["metadata"]["namespace"], service["metadata"]["name"]
        pods = {
            each["metadata"]["name"]
            for each in world.stored("pods", namespace)
            if selector.items() <= each["metadata"].get("labels", {}).items()
            and is_active(each)
            and not is_deleted(each)
            and each.get("status", {}).get("podIP")
        }
        listed = {
            (endpoint.get("targetRef") or {}).get("name")
            for each in world.stored("endpointslices", namespace)
            if each["metadata"]["labels"].get("kubernetes.io/service-name") == name
            for endpoint in each.get("endpoints") or ()
        }
        if pods != listed:
            yield f"service {path_of(service)}: has {listed}, its pods are {pods}"
