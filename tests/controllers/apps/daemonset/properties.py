"""The properties of the daemon set controller."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import Any, Final
from unittest import mock

import msgspec

from controller_manager.api.core.v1 import Node, Pod, PodTemplateSpec
from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import scaled_value
from controller_manager.controllers.apps.daemonset import controller
from controller_manager.controllers.apps.daemonset.nodes import (
    Fit,
    placement_of,
    target_of,
)
from controller_manager.controllers.apps.daemonset.pods import DaemonPods, Plan
from controller_manager.controllers.apps.daemonset.rolling_update import plan_update
from tests.controllers.apps.daemonset.workload import DaemonSetUsers
from tests.simulation.changes import Path, only
from tests.simulation.managers import Manager
from tests.simulation.objects import controller_of, lives, path_of
from tests.simulation.properties import AllowedWrite, Properties, Violate, Write
from tests.simulation.state import State

_HASH: Final = "controller-revision-hash"
_NUMBERS: Final = (
    "desiredNumberScheduled",
    "currentNumberScheduled",
    "updatedNumberScheduled",
    "numberReady",
    "numberAvailable",
    "numberUnavailable",
    "numberMisscheduled",
)


def _changes_pod(path: Path, old: Any, new: Any) -> bool:
    """Owners, and the label of a revision that replaces an equal one."""
    if path == ("metadata", "labels", _HASH):
        return new is not None
    return only(("metadata", "ownerReferences"))(path, old, new)


class DaemonSetProperties(Properties):
    """Each node gets one pod, two at most during an update with maxSurge."""

    controller = "daemonset-controller"
    may_write = (
        AllowedWrite(("create", "delete"), "pods"),
        AllowedWrite(("patch",), "pods", _changes_pod),
        AllowedWrite(("create", "delete"), "controllerrevisions"),
        AllowedWrite(
            ("patch",), "controllerrevisions", only(("metadata", "ownerReferences"))
        ),
        AllowedWrite(
            ("update",),
            "controllerrevisions",
            only(("revision",), ("metadata", "labels", _HASH)),
        ),
        AllowedWrite(("update",), "daemonsets/status", only(("status",))),
    )
    workload = DaemonSetUsers

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self._surged: set[str] = set()
        """The uids of daemon sets that had a maxSurge at some time."""

    @contextmanager
    def watching(self, violate: Violate) -> Iterator[None]:
        """Check every plan of an update."""
        with ExitStack() as stack:
            planner = checked_planner(plan_update, violate)
            stack.enter_context(mock.patch.object(controller, "plan_update", planner))
            yield

    def before_write(self) -> None:
        """Record the daemon sets that may have two pods on a node."""
        for each in self.state.stored("daemonsets"):
            rolling = each["spec"]["updateStrategy"].get("rollingUpdate", {})
            if rolling.get("maxSurge", 0) not in (0, "0%"):
                self._surged.add(each["metadata"]["uid"])

    def after_write(self, write: Write) -> Iterator[str]:
        is_pod = write.verb == "create" and write.target.plural == "pods"
        # A stopped process cannot take back a request that a slow webhook delays.
        if is_pod and not write.is_late:
            # Adopted pods may be surplus on another node for a moment.
            pod = write.answered
            yield from self._crowded(controller_of(pod), _node_of(pod))

    def broken_invariants(self) -> Iterator[str]:
        """Yield nodes with more pods of a daemon set than it may have."""
        self.before_write()
        for each in self.state.stored("daemonsets"):
            yield from self._crowded(each["metadata"]["uid"])

    def _crowded(self, uid: str, only: str = "") -> Iterator[str]:
        """Yield the nodes, or the given node, with too many live pods."""
        for each in self.state.stored("daemonsets"):
            if each["metadata"]["uid"] != uid:
                continue
            most = 2 if uid in self._surged else 1
            for node, count in self._pods_by_node(each).items():
                if count > most and only in ("", node):
                    yield f"{path_of(each)} has {count} live pods for {node}"

    def _pods_by_node(self, daemon_set: JSON) -> Counter[str]:
        """Count the live pods that the controller has created, by their node.

        A pod that was adopted may have come to any node.
        """
        metadata = daemon_set["metadata"]
        return Counter(
            _node_of(pod)
            for pod in self.state.stored("pods", metadata["namespace"])
            if lives(pod, metadata["uid"])
            and pod["metadata"].get("generateName") == f"{metadata['name']}-"
        )

    def end_state(self) -> JSON:
        """Return the state of every daemon set as a user sees it."""
        return {
            path_of(each): self._seen_of(each)
            for each in self.state.stored("daemonsets")
        }

    def _seen_of(self, daemon_set: JSON) -> JSON:
        uid, status = daemon_set["metadata"]["uid"], daemon_set.get("status", {})
        pods = [
            pod
            for pod in self.state.stored("pods", daemon_set["metadata"]["namespace"])
            if controller_of(pod) == uid
        ]
        return {
            "spec": daemon_set["spec"],
            "numbers": {key: status.get(key, 0) for key in _NUMBERS},
            "observed": status.get("observedGeneration")
            == daemon_set["metadata"]["generation"],
            "pods": sorted((_node_of(pod), _image(pod)) for pod in pods),
        }

    def wrong_at_the_end(self, managers: Sequence[Manager]) -> Iterator[str]:
        """Yield daemon sets whose pods or revisions are wrong."""
        del managers
        for each in self.state.stored("daemonsets"):
            metadata = each["metadata"]
            pods = [
                pod
                for pod in self.state.stored("pods", metadata["namespace"])
                if controller_of(pod) == metadata["uid"]
            ]
            if nodes := self._wrong_nodes(each, pods):
                yield f"{path_of(each)}: wrong pods on {nodes}"
            for problem in self._wrong_revisions(each, pods):
                yield f"{path_of(each)}: of its revisions {problem}"

    def _wrong_nodes(self, daemon_set: JSON, pods: list[JSON]) -> list[str]:
        """Return the nodes that have too few pods, or too many."""
        encoded = msgspec.json.encode(daemon_set["spec"]["template"])
        template = msgspec.json.decode(encoded, type=PodTemplateSpec)
        placement = placement_of(template, compares_numbers=False)
        nodes = [msgspec.convert(each, Node) for each in self.state.stored("nodes")]
        wanted = Counter(
            each.metadata.name for each in nodes if placement.fit(each) is Fit.RUN
        )
        found = Counter(map(_node_of, pods))
        return sorted({*(wanted - found), *(found - wanted)})

    def _wrong_revisions(self, daemon_set: JSON, pods: list[JSON]) -> list[str]:
        """Return the problem of the revisions, in words."""
        metadata = daemon_set["metadata"]
        revisions = sorted(
            (
                each
                for each in self.state.stored(
                    "controllerrevisions", metadata["namespace"]
                )
                if controller_of(each) == metadata["uid"]
            ),
            key=lambda each: int(each["revision"]),
        )
        if not revisions:
            return ["there is none"]
        problems = []
        newest = revisions[-1]
        template = newest["data"]["spec"]["template"]
        if template["spec"] != daemon_set["spec"]["template"]["spec"]:
            problems.append("the newest has another template")
        if any(
            pod["metadata"]["labels"][_HASH] != newest["metadata"]["labels"][_HASH]
            for pod in pods
        ):
            problems.append("not only the newest has pods")
        if len(revisions) - 1 > daemon_set["spec"]["revisionHistoryLimit"]:
            problems.append("too many are kept")
        return problems


def _node_of(pod: JSON) -> str:
    return target_of(msgspec.convert(pod, Pod))


def _image(pod: JSON) -> str:
    return str(pod["spec"]["containers"][0]["image"])


Planner = Callable[[DaemonPods, Collection[str], datetime], Plan]


def checked_planner(planner: Planner, violate: Violate) -> Planner:
    """Return a planner that reports how its plans break the bounds."""

    def checked(placed: DaemonPods, held: Collection[str], now: datetime) -> Plan:
        plan = planner(placed, held, now)
        for problem in plan_problems(placed, plan, now):
            violate(problem)
        return plan

    return checked


def plan_problems(placed: DaemonPods, plan: Plan, now: datetime) -> Iterator[str]:
    """Yield how a plan of an update breaks the bounds, by the manager's caches."""
    strategy = placed.daemon_set.spec.update_strategy
    rolling = strategy.rolling_update
    if rolling is None:
        if not plan.is_empty:
            yield f"{placed.daemon_set.metadata.name}: OnDelete, but there is a plan"
        return
    wanted = [node for node, fit in placed.fits.items() if fit is Fit.RUN]
    surge, unavailable = (
        scaled_value(each or 0, len(wanted), round_up=True)
        for each in (rolling.max_surge, rolling.max_unavailable)
    )
    most = unavailable or (0 if surge else 1)
    gone = {each.pod.metadata.uid for each in plan.deletions}
    had, left = (
        sum(
            any(
                placed.is_available(pod, now) and pod.metadata.uid not in without
                for pod in placed.staying(node)
            )
            for node in wanted
        )
        for without in (set[str](), gone)
    )
    name = placed.daemon_set.metadata.name
    if left < min(had, len(wanted) - (0 if surge else most)):
        yield f"{name}: {left} of {had} nodes keep an available pod, {most} may not"
    serving = sum(
        any(placed.is_available(pod, now) for pod in placed.staying(node))
        for node in plan.nodes
    )
    if serving > surge:
        yield f"{name}: {serving} second pods beside available ones, surge is {surge}"


PROPERTIES = DaemonSetProperties
