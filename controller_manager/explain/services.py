"""Explains services without endpoints."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from controller_manager.api.apps.v1 import DAEMON_SETS, DEPLOYMENTS, STATEFUL_SETS
from controller_manager.api.core.services import EXTERNAL_NAME, Service
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.discovery.v1 import ENDPOINT_SLICES, EndpointSlice
from controller_manager.api.json_objects import object_at, objects_at
from controller_manager.api.meta import AnyResource
from controller_manager.api.pods import is_ready, is_terminal
from controller_manager.control.endpoints.pods import (
    belongs_in_endpoints,
    find_port,
    is_selected,
    selects_pods,
)

from .cause import Cause, Item, State, counted, symptom, text_at, worst_first, worst_of
from .daemon_sets import explain_daemon_set
from .own_causes import spec_cause
from .replicas import explain_pods
from .rollout import explain_deployment
from .stateful_sets import explain_stateful_set
from .view import View

_Explain = Callable[[View, Item], Awaitable[tuple[Cause, ...]]]

SERVICE_NAME: Final = "kubernetes.io/service-name"
_LOAD_BALANCER: Final = "LoadBalancer"
_PATIENCE: Final = timedelta(minutes=2)
"""The time in which a controller publishes a pod, or makes a load balancer."""

_MAKERS: Final[Sequence[tuple[AnyResource, _Explain]]] = (
    (DEPLOYMENTS, explain_deployment),
    (STATEFUL_SETS, explain_stateful_set),
    (DAEMON_SETS, explain_daemon_set),
)


async def explain_service(view: View, item: Item) -> tuple[Cause, ...]:
    """Return the causes for which a service has no ready endpoints."""
    service = item.typed(Service)
    if service.spec.type == EXTERNAL_NAME:
        return ()
    if not selects_pods(service):
        return await _by_hand(view, item)
    pods = await view.list(PODS, item.namespace, labels=_query(service))
    selected = [each for each in pods if is_selected(each.typed(Pod), service)]
    if not selected and not view.is_whole(PODS, item.namespace, labels=_query(service)):
        return ()
    if selected and all(is_terminal(each.typed(Pod)) for each in selected):
        return (_ended(item, len(selected)),)
    if not selected:
        return (await _nothing_matches(view, item, service),)
    if ports := _missing_ports(item, service, selected):
        return ports
    if service.spec.publish_not_ready_addresses:
        with_address = [each for each in selected if _has_address(each)]
        return () if with_address else await _not_ready(view, item, selected)
    ready = [
        each for each in selected if _has_address(each) and is_ready(each.typed(Pod))
    ]
    if not ready:
        return await _not_ready(view, item, selected)
    return (
        *await _unpublished(view, item, ready),
        *_no_load_balancer(view, item, service),
    )


def _no_load_balancer(view: View, item: Item, service: Service) -> tuple[Cause, ...]:
    """Return the cause if a service of the type LoadBalancer has no address."""
    status = object_at(item.status, "loadBalancer")
    if service.spec.type != _LOAD_BALANCER or any(objects_at(status, "ingress")):
        return ()
    name = item.spec.get("loadBalancerClass")
    who = f"the controller of the class {name}" if name else "the cloud's controller"
    is_new = view.age(item.created_at) < _PATIENCE
    return (
        item.cause(
            "NoLoadBalancer",
            f"the service has no load balancer: {who} has set no address",
            "status.loadBalancer.ingress",
            item.created_at,
            remedy="" if is_new else f"see that {who} runs, or use another type",
            state=State.PROGRESSING if is_new else State.STUCK,
        ),
    )


def _query(service: Service) -> str:
    return _text(service.spec.selector or {})


def _text(selector: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(selector.items()))


def _has_address(pod: Item) -> bool:
    return belongs_in_endpoints(pod.typed(Pod), include_terminating=False)


async def _slices(view: View, item: Item) -> Sequence[EndpointSlice]:
    labels = f"{SERVICE_NAME}={item.name}"
    found = await view.list(ENDPOINT_SLICES, item.namespace, labels=labels)
    return [each.typed(EndpointSlice) for each in found]


async def _by_hand(view: View, item: Item) -> tuple[Cause, ...]:
    """Return the cause for a service without a selector, and without endpoints."""
    slices = await _slices(view, item)
    if view.unread or any(each.endpoints for each in slices):
        return ()
    return (
        spec_cause(
            item,
            "NoSelector",
            "the service has no selector, and there are no endpoint slices for it",
            "spec.selector",
            "give it a selector, or create an endpoint slice with the label "
            f"{SERVICE_NAME}: {item.name}",
        ),
    )


async def _nothing_matches(view: View, item: Item, service: Service) -> Cause:
    """Return the cause for a selector that matches no pod, with the nearest pod."""
    wanted = service.spec.selector or {}
    if found := await _without_pods(view, item, wanted):
        return found
    pods = await view.list(PODS, item.namespace)
    what = f"no pod has the labels {_query(service)}"
    near = max(pods, key=lambda each: _agreement(each, wanted), default=None)
    if near is not None and _agreement(near, wanted):
        what += f"; the nearest pod, {near.name}, {_differences(near, wanted)}"
    elif not pods:
        what += "; the namespace has no pods"
    remedy = "correct the selector of the service, or the labels of the pods"
    return spec_cause(item, "NothingMatches", what, "spec.selector", remedy)


async def _without_pods(
    view: View, item: Item, wanted: Mapping[str, str]
) -> Cause | None:
    """Return the cause if a workload makes pods for the service, and has none."""
    for resource, explain in _MAKERS:
        for each in await view.list(resource, item.namespace):
            if each.deleted_at or not wanted.items() <= _template_labels(each).items():
                continue
            causes = worst_first(await explain(view, each))
            state = worst_of(causes)
            cause = spec_cause(
                item,
                "NothingMatches",
                f"no pod has the labels {_text(wanted)}, with which "
                f"{resource.kind} {each.name} makes pods",
                "spec.selector",
                "" if causes else "wait until its controller makes them",
                State.STUCK if state is State.HEALTHY else state,
            )
            return replace(cause, because=causes)
    return None


def _template_labels(workload: Item) -> Mapping[str, str]:
    template = object_at(workload.spec, "template")
    return object_at(object_at(template, "metadata"), "labels")


def _ended(item: Item, count: int) -> Cause:
    return item.cause(
        "PodsNotReady",
        f"all pods that it selects, {count}, have ended"
        if count > 1
        else "the pod that it selects has ended",
        "spec.selector",
        remedy="start pods that run on, or correct the selector of the service",
    )


def _differences(pod: Item, wanted: Mapping[str, str]) -> str:
    """Return the labels that a pod lacks, or has with another value."""
    found = []
    for key, value in sorted(wanted.items()):
        if key not in pod.labels:
            found.append(f"lacks {key}={value}")
        elif pod.labels[key] != value:
            found.append(f"has {key}={pod.labels[key]}")
    return " and ".join(found)


def _agreement(pod: Item, wanted: Mapping[str, str]) -> int:
    return sum(pod.labels.get(key) == value for key, value in wanted.items())


def _missing_ports(
    item: Item, service: Service, selected: Sequence[Item]
) -> tuple[Cause, ...]:
    """Return causes for the ports that no selected pod has."""
    pods = [each.typed(Pod) for each in selected]
    return tuple(
        spec_cause(
            item,
            "PortMissing",
            f"no container port of the pods has the name {port.target_port!a}"
            f" and the protocol {port.protocol or 'TCP'}",
            f"spec.ports[{port.name or port.port}].targetPort",
            "name the port of the container so, or give its number",
        )
        for port in service.spec.ports or ()
        if all(find_port(pod, port) is None for pod in pods)
    )


async def _not_ready(
    view: View, item: Item, selected: Sequence[Item]
) -> tuple[Cause, ...]:
    """Return the cause for a service whose pods are not ready."""
    count = len(selected)
    cause = item.cause(
        "PodsNotReady",
        f"none of the {count} pods that it selects is ready"
        if count > 1
        else "the pod that it selects is not ready",
        "spec.selector",
        state=State.PROGRESSING,
    )
    return (symptom(cause, await explain_pods(view, selected, 0)),)


async def _unpublished(
    view: View, item: Item, ready: Sequence[Item]
) -> tuple[Cause, ...]:
    """Return the cause if no slice has the address of a ready pod."""
    names = {
        endpoint.target_ref.name
        for each in await _slices(view, item)
        for endpoint in each.endpoints or ()
        if endpoint.target_ref is not None
    }
    if view.unread or any(each.name in names for each in ready):
        return ()
    times = [
        text_at(each.condition("Ready") or {}, "lastTransitionTime") for each in ready
    ]
    since = max(min(times), item.created_at)
    is_new = not since or view.age(since) < _PATIENCE
    return (
        item.cause(
            "NotPublished",
            f"no endpoint slice has its {counted(len(ready), 'ready pod')} yet",
            "spec.selector",
            since,
            remedy="" if is_new else "see that the endpoint slice controller runs",
            state=State.PROGRESSING if is_new else State.STUCK,
        ),
    )
