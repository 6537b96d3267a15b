"""The kubelets: start pods, run them to their end, and end those that are deleted."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time, parse_time
from controller_manager.devcluster.apiserver.objects import Objects
from controller_manager.devcluster.apiserver.strategy import Deletion
from controller_manager.devcluster.csi.volumes import Mounts
from controller_manager.devcluster.kubelet import pod_status, pods
from controller_manager.devcluster.registry.core.cluster import NODES as NODE
from controller_manager.devcluster.registry.core.pods import KIND as POD
from controller_manager.devcluster.scheme.statuses import bad_request
from controller_manager.devcluster.storage import Change, Key, Stored, key_of

from .commands import Run
from .containers import Moment, Step
from .environment import Environment, Sources
from .events import Reporter, warning
from .machine import Files, NodeMachine
from .node_status import PodFit, Rejection, addresses_of, is_stopped
from .pod_status import adopted_run, with_annotations_of
from .programs import AnnotationError, Role, pull_seconds
from .shell import run_of

_FIELDS: Final = {
    Role.INIT: "initContainers",
    Role.SIDECAR: "initContainers",
    Role.MAIN: "containers",
    Role.EPHEMERAL: "ephemeralContainers",
}
"""The lists of a pod's spec, by the role of containers."""


class _Held(Struct, frozen=True):
    uid: str
    run: pods.PodRun
    timer: asyncio.TimerHandle
    written: Stored | None
    """The last state, if the kubelet wrote it after it had found this step."""


class Kubelet:
    """Runs the pods of all nodes.

    It remembers a pod only while a step is due: its start, the end or the restart of a
    container, a probe, a deadline, or its removal. The status has all other facts. The
    containers of a node whose kubelet is stopped continue; the kubelet reports their
    changes when it starts again.
    """

    def __init__(
        self,
        objects: Objects,
        report: Reporter,
        mounts: Mounts,
        fit: PodFit,
        *,
        start_delay: float,
        grace_scale: float,
        families: tuple[str, ...],
    ) -> None:
        """Take the delay until images are pulled, and the factor for grace periods.

        `mounts` mounts the volumes of pods, `fit` rejects pods that do not fit
        their nodes. Pods get addresses of the `families`.
        """
        self._objects = objects
        self._clock = objects.clock
        self._pods = objects.storage.collection(POD.resource)
        self._nodes = objects.storage.collection(NODE.resource)
        self._report = report
        self._mounts = mounts
        self._fit = fit
        environment = Environment(objects.storage, families)
        self._sources = Sources(environment, report)
        self.files = Files(objects.storage, environment)
        self._start_delay = start_delay
        self._grace_scale = grace_scale
        self._families = families
        self._held: dict[Key, _Held] = {}
        self._images: dict[str, set[str]] = {}
        """The images on each node."""

    def pod_changed(self, change: Change) -> None:
        """React to a change of a pod on a node, unless the kubelet has made it."""
        held = self._held.get(change.key)
        if held is None or held.written is not change.after:
            self.sync(change.key)

    def sync(self, key: Key) -> None:
        """React to a pod that is new on a node, or has changed."""
        stored = self._pods.get(key)
        if stored is None:
            return  # the watch reports its removal next
        pod, held = stored.obj, self._held.get(key)
        if held is not None and held.uid != pod["metadata"]["uid"]:
            self.forget(key)
            held = None
        if not pod["spec"].get("nodeName") or self._is_stopped(pod):
            return  # a pod without a node is a new pod of the same name
        run = held.run if held is not None else None
        if "deletionTimestamp" in pod["metadata"]:
            self._sync_terminating(pod, run)
        elif pod_status.is_over(pod):
            self._end(pod)
        elif run is None and pod_status.has_not_begun(pod):
            self._sync_new(pod)
        else:
            self._sync_active(pod, run)

    def adopt(self, key: Key) -> None:
        """Take over a pod that ran before this program started."""
        stored = self._pods.get(key)
        if stored is None or key in self._held:
            return
        if pod_status.has_begun(stored.obj):
            now = self._now()
            self._hold(stored.obj, self._adopted(stored.obj, now), now)

    def resume(self, node: str) -> None:
        """Report all changes in the pods of a node whose kubelet was stopped."""
        now = self._now()
        self._mounts.settle(node)
        for stored in list(self._pods):
            pod = stored.obj
            if pod["spec"].get("nodeName") != node:
                continue
            if pod["status"].get("containerStatuses") and not pod_status.is_over(pod):
                # Another client may have written that the pod is not ready.
                self._write(pod, self._run(pod, now), now)
            self.sync(key_of(pod))

    def source_changed(self, resource: str, key: Key) -> None:
        """React to a config map or a secret that is new, has changed, or is gone."""
        for pod in self._sources.waiting_for(resource, key):
            stored = self._pods.get(pod)
            if stored is None or pod_status.is_over(stored.obj):
                continue
            if pod_status.has_begun(stored.obj) and not self._is_stopped(stored.obj):
                now = self._now()
                self._hold(stored.obj, self._adopted(stored.obj, now), now)
            else:
                self.sync(pod)

    def report_late(self) -> None:
        """Check the pods again that wait for config maps and secrets."""
        for key in self._sources.waiting():
            stored = self._pods.get(key)
            if stored is not None and not pod_status.has_begun(stored.obj):
                self._sources.forget(key)
                self.sync(key)

    def evict(self, key: Key, message: str) -> None:
        """Evict a pod because its node is under pressure."""
        stored = self._pods.get(key)
        if stored is None or self._is_stopped(stored.obj):
            return
        pod, now = stored.obj, self._now()
        run = self._run(pod, now)
        condition = {
            "type": "DisruptionTarget",
            "observedGeneration": pod["metadata"].get("generation", 1),
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": now.text,
            "reason": "TerminationByKubelet",
            "message": message,
        }
        conditions = [*pod["status"].get("conditions", ()), condition]
        self.forget(key)
        shown = {**pod, "status": {**pod["status"], "conditions": conditions}}
        failed = pods.failed(run, warning("Evicted", message), now)
        self._finish(shown, None, failed, now)

    def execute(self, pod: JSON, name: str, command: Sequence[str]) -> Run | None:
        """Run a command in a container of a pod now; `None` for an unknown command.

        The files that it changes may let probes fail or succeed. Raises Refusal if the
        container does not run.
        """
        now = self._now()
        pod_run = self._run(pod, now)
        found = [each for each in pod_run.containers if each.spec["name"] == name]
        if not found or found[0].step is not Step.RUNNING:
            message = f'unable to upgrade connection: container not found ("{name}")'
            raise bad_request(message)
        run = run_of(command, self.files.around(pod, found[0], now.seconds))
        if run is not None and run.writes:
            self.files.record(pod, found[0], now.seconds, run.writes)
            self._hold(pod, pods.with_probes_due(pod_run, now), now)
        return run

    def forget(self, key: Key) -> None:
        """Stop waiting for a pod that is gone or has ended."""
        if (held := self._held.pop(key, None)) is not None:
            held.timer.cancel()
        self._sources.forget(key)

    def removed(self, pod: JSON) -> None:
        """Forget a pod that is gone, with its files."""
        self.forget(key_of(pod))
        self.files.forget(pod, is_gone=True)

    def _end(self, pod: JSON) -> None:
        """Unmount the volumes of a pod without further runs."""
        self.forget(key_of(pod))
        self._mounts.release(pod)
        self.files.forget(pod, is_gone=False)

    def close(self) -> None:
        """Stop waiting for all pods."""
        for key in list(self._held):
            self.forget(key)

    def _sync_new(self, pod: JSON) -> None:
        """Start a pod once its volumes are there."""
        if pod["status"].get("phase") != "Pending":
            return  # a user writes the pod's status
        is_new = not pod["status"].get("containerStatuses")
        if is_new and (rejection := self._fit.why_not(pod)):
            self._reject(pod, rejection)
            return
        now = self._now()
        run = pods.new_run(pod, now, self._deadline(pod, now), self._machine(pod))
        if not self._mounts.prepare(pod) or not self._sources.prepare(pod):
            if not pod["status"].get("containerStatuses"):
                self._write(pod, run, now)
            return
        self._finish(pod, None, run, now)

    def _reject(self, pod: JSON, rejection: Rejection) -> None:
        status = {
            **pod["status"],
            "phase": "Failed",
            "reason": rejection.reason,
            "message": f"Pod was rejected: {rejection.message}",
            "startTime": self._now().text,
        }
        self._objects.put(POD, key_of(pod), {**pod, "status": status})
        self._report.kubelet(pod, warning(rejection.reason, rejection.message))

    def _sync_active(self, pod: JSON, held: pods.PodRun | None) -> None:
        if held is None and not pod_status.needs_attention(pod):
            return
        now = self._now()
        before = held or self._adopted(pod, now)
        machine = self._machine(pod)
        run = pods.with_spec_of(before, pod, now, machine)
        run = with_annotations_of(run, pod, now, machine)
        run = replace(run, deadline=self._deadline(pod, now))
        gates_differ = pod_status.gates_differ(pod, run)
        changed = run.containers != before.containers or gates_differ
        if changed or pod_status.shows_older_generation(pod):
            self._finish(pod, None, run, now)
        else:
            self._hold(pod, run, now)

    def _sync_terminating(self, pod: JSON, held: pods.PodRun | None) -> None:
        if pod_status.is_over(pod):
            self._end(pod)
            if pod["metadata"].get("deletionGracePeriodSeconds"):
                self._delete(pod)
            return
        now = self._now()
        run = held or self._adopted(pod, now)
        nothing_runs = pod["status"]["phase"] == "Pending" and not run.is_running
        left = 0.0 if nothing_runs else self._grace_left(pod)
        run = pods.stopping(replace(run, kill_at=now.seconds + left), now)
        self._record_events(pod, run)
        self._hold(pod, pods.reported(run), now)

    def _advance(self, key: Key, uid: str) -> None:
        stored = self._pods.get(key)
        if stored is not None and self._is_stopped(stored.obj):
            return
        held = self._held.pop(key)
        if stored is None or stored.obj["metadata"]["uid"] != uid:
            return  # the watch reports it next
        if pod_status.is_over(stored.obj):
            return  # also the end of the pod by another client: its phase stays
        now = self._now()
        run = pods.advanced(held.run, now, self._machine(stored.obj))
        self._finish(stored.obj, held.run, run, now)

    def _finish(
        self, pod: JSON, before: pods.PodRun | None, after: pods.PodRun, now: Moment
    ) -> None:
        """Write and report the changes of a pod; wait for the next step."""
        run, written = pods.reported(after), None
        if run != before:
            written = self._write(pod, run, now)
            self._record_events(pod, after)
        if run.kill_at is not None and run.is_over:
            self._delete(pod)
        elif not run.is_over:
            self._hold(pod, run, now, written)

    def _hold(
        self, pod: JSON, run: pods.PodRun, now: Moment, written: Stored | None = None
    ) -> None:
        """Wait for the next step of a pod, if there is one.

        `written` is the state that the kubelet has just written. It follows from `run`,
        except that a deadline is later than the one that counts from the written start.
        """
        key, uid = key_of(pod), pod["metadata"]["uid"]
        self.forget(key)
        if run.lacks_configuration:
            self._sources.wait(pod)
        if (due := run.due) is None:
            return
        loop = asyncio.get_running_loop()
        timer = loop.call_later(max(0.0, due - now.seconds), self._advance, key, uid)
        seen = written if run.deadline is None else None
        self._held[key] = _Held(uid, run, timer, seen)

    def _record_events(self, pod: JSON, run: pods.PodRun) -> None:
        for note in run.notes:
            self._report.kubelet(pod, note)
        for each in run.containers:
            of = _FIELDS[each.role]
            for note in each.notes:
                path = f"spec.{of}{{{each.spec['name']}}}"
                self._report.kubelet(pod, note, path)

    def _write(self, pod: JSON, run: pods.PodRun, now: Moment) -> Stored | None:
        """Write the status of a pod; return its new state, `None` without a change.

        The state of a pod that is deleted is not returned: others may remove it.
        """
        metadata = pod["metadata"]
        node = self._nodes.get(("", pod["spec"]["nodeName"]))
        host = addresses_of(node.obj) if node is not None else ()
        place = pod_status.Place(host, self._families)
        status = pod_status.pod_status(pod, run, now, place)
        if status == pod["status"]:
            return None
        if "deletionTimestamp" not in metadata:
            # A kubelet's own status needs no checks, and most writes are these.
            return self._objects.put(POD, key_of(pod), {**pod, "status": status})
        new = {"metadata": metadata, "status": status}
        self._objects.update(POD, *key_of(pod), new, "status")
        return None

    def _delete(self, pod: JSON) -> None:
        self._mounts.release(pod)
        self.files.forget(pod, is_gone=False)
        options = Deletion(grace_period=0, uid=pod["metadata"]["uid"])
        self._objects.delete(POD, *key_of(pod), options)

    def _machine(self, pod: JSON) -> NodeMachine:
        images = self._images.setdefault(pod["spec"]["nodeName"], set())
        try:
            delay = pull_seconds(pod, self._start_delay)
        except AnnotationError:
            delay = self._start_delay  # the containers report it
        return NodeMachine(pod, images, self.files, delay, self._grace_scale)

    def _run(self, pod: JSON, now: Moment) -> pods.PodRun:
        held = self._held.get(key_of(pod))
        return self._adopted(pod, now) if held is None else held.run

    def _adopted(self, pod: JSON, now: Moment) -> pods.PodRun:
        wall = self._clock.now()

        def at(text: str) -> float:
            return now.seconds - (wall - parse_time(text)).total_seconds()

        return adopted_run(pod, now, at, self._machine(pod))

    def _grace_left(self, pod: JSON) -> float:
        """Return the seconds until a deleted pod's containers are killed."""
        metadata = pod["metadata"]
        grace: int = metadata.get("deletionGracePeriodSeconds", 0)
        due = parse_time(metadata["deletionTimestamp"])
        passed = self._clock.now() - (due - timedelta(seconds=grace))
        return max(0.0, grace * self._grace_scale - passed.total_seconds())

    def _deadline(self, pod: JSON, now: Moment) -> float | None:
        """Return the deadline of a pod on the monotonic clock, `None` without one."""
        seconds = pod["spec"].get("activeDeadlineSeconds")
        if seconds is None:
            return None
        began = pod.get("status", {}).get("startTime")
        passed = self._clock.now() - parse_time(began) if began else timedelta()
        return now.seconds + float(seconds) - passed.total_seconds()

    def _is_stopped(self, pod: JSON) -> bool:
        node = self._nodes.get(("", pod["spec"].get("nodeName", "")))
        return node is not None and is_stopped(node.obj)

    def _now(self) -> Moment:
        return Moment(self._clock.monotonic(), format_time(self._clock.now()))
