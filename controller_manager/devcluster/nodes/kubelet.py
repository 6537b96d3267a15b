"""The kubelets: start pods, run them to their end, and end those that are deleted."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.times import format_time, parse_time
from controller_manager.devcluster.kinds.core.node import KIND as NODE
from controller_manager.devcluster.kinds.core.pod import KIND as POD
from controller_manager.devcluster.nodes.container_runs import Moment, Step
from controller_manager.devcluster.nodes.node_status import is_stopped
from controller_manager.devcluster.nodes.pod_runs import (
    PodRun,
    adopted_run,
    advanced,
    full_name,
    new_run,
    with_images_of,
)
from controller_manager.devcluster.nodes.pod_status import is_ready, pod_status
from controller_manager.devcluster.nodes.reports import Reporter
from controller_manager.devcluster.nodes.volumes.mounts import Mounts
from controller_manager.devcluster.server.deletion import Deletion
from controller_manager.devcluster.server.objects import Objects
from controller_manager.devcluster.server.storage import Key

JSON = dict[str, Any]


class _Held(Struct, frozen=True):
    """A pod to which something will happen, and the timer that waits for it."""

    uid: str
    run: PodRun
    timer: asyncio.TimerHandle


class Kubelet:
    """Runs the pods of all nodes.

    It remembers a pod only while something is due in it: its start, the end or the
    restart of a container, a deadline, or its removal. All else stands in its status.
    The containers of a node whose kubelet is stopped go on; what happens in them is
    reported when it starts again.
    """

    def __init__(
        self,
        objects: Objects,
        report: Reporter,
        mounts: Mounts,
        *,
        start_delay: float,
        grace_scale: float,
    ) -> None:
        """Take the delay until images are there, and the factor for grace periods.

        `mounts` tells when the volumes of a pod are there.
        """
        self._objects = objects
        self._clock = objects.clock
        self._pods = objects.storage.collection(POD.resource)
        self._nodes = objects.storage.collection(NODE.resource)
        self._report = report
        self._mounts = mounts
        self._start_delay = start_delay
        self._grace_scale = grace_scale
        self._held: dict[Key, _Held] = {}

    def sync(self, key: Key) -> None:
        """React to a pod that is new on a node, or has changed."""
        stored = self._pods.get(key)
        if stored is None:
            return  # the watch tells of its removal next
        pod, held = stored.obj, self._held.get(key)
        if held is not None and held.uid != pod["metadata"]["uid"]:
            self.forget(key)
            held = None
        if not pod["spec"].get("nodeName") or self._is_stopped(pod):
            return  # without a node it is another pod, of the same name
        run = held.run if held is not None else None
        if "deletionTimestamp" in pod["metadata"]:
            self._sync_terminating(pod, run)
        elif _is_over(pod):
            self._end(key)
        else:
            self._sync_active(pod, run)

    def resume(self, node: str) -> None:
        """Make up for all that has happened in the pods of a node that was stopped."""
        now = self._now()
        self._mounts.settle(node)
        for stored in list(self._pods):
            pod = stored.obj
            if pod["spec"].get("nodeName") != node:
                continue
            if pod["status"].get("containerStatuses") and not _is_over(pod):
                held = self._held.get(_key(pod))
                # Somebody may have written that the pod is not ready.
                self._write(pod, held.run if held else adopted_run(pod, now), now)
            self.sync(_key(pod))

    def forget(self, key: Key) -> None:
        """Stop waiting for a pod that is gone or has ended."""
        if (held := self._held.pop(key, None)) is not None:
            held.timer.cancel()

    def _end(self, key: Key) -> None:
        """Unmount the volumes of a pod in which nothing will run any more."""
        self.forget(key)
        self._mounts.release(key)

    def close(self) -> None:
        """Stop waiting for all pods."""
        for key in list(self._held):
            self.forget(key)

    def _sync_active(self, pod: JSON, held: PodRun | None) -> None:
        now = self._now()
        if held is None and not pod.get("status", {}).get("containerStatuses"):
            if pod.get("status", {}).get("phase") == "Pending":
                if not self._mounts.prepare(pod):
                    return  # until its volumes are there
                deadline = self._deadline(pod, now)
                self._hold(pod, new_run(pod, now, self._start_delay, deadline), now)
            return  # else somebody writes the pod's status by hand
        if held is None and not _needs_attention(pod):
            return
        before = held or adopted_run(pod, now)
        run = with_images_of(before, pod, now, self._start_delay)
        run = replace(run, deadline=self._deadline(pod, now))
        if run.containers != before.containers or _gates_differ(pod, run):
            self._write(pod, run, now)
        self._hold(pod, run, now)

    def _sync_terminating(self, pod: JSON, held: PodRun | None) -> None:
        if _is_over(pod):
            self._end(_key(pod))
            if pod["metadata"].get("deletionGracePeriodSeconds"):
                self._delete(pod)
            return
        now = self._now()
        run = held or adopted_run(pod, now)
        nothing_runs = pod["status"]["phase"] == "Pending" and not run.is_running
        left = 0.0 if nothing_runs else self._grace_left(pod)
        self._hold(pod, replace(run, kill_at=now.seconds + left), now)

    def _advance(self, key: Key, uid: str) -> None:
        """Do what is due in a pod."""
        stored = self._pods.get(key)
        if stored is not None and self._is_stopped(stored.obj):
            return
        held = self._held.pop(key)
        if stored is None or stored.obj["metadata"]["uid"] != uid:
            return  # the watch tells of it next
        pod, now = stored.obj, self._now()
        run = advanced(held.run, now)
        if run != held.run:
            self._write(pod, run, now)
            self._report_back_off(pod, held.run, run)
        if run.kill_at is not None and run.is_over:
            self._delete(pod)
        elif not run.is_over:
            self._hold(pod, run, now)

    def _hold(self, pod: JSON, run: PodRun, now: Moment) -> None:
        """Wait for what happens next in a pod, if anything does."""
        key, uid = _key(pod), pod["metadata"]["uid"]
        self.forget(key)
        if (due := run.due) is None:
            return
        loop = asyncio.get_running_loop()
        timer = loop.call_later(max(0.0, due - now.seconds), self._advance, key, uid)
        self._held[key] = _Held(uid, run, timer)

    def _write(self, pod: JSON, run: PodRun, now: Moment) -> None:
        metadata, status = pod["metadata"], pod_status(pod, run, now)
        self._objects.update(
            POD,
            metadata["namespace"],
            metadata["name"],
            {"metadata": metadata, "status": status},
            "status",
        )

    def _delete(self, pod: JSON) -> None:
        metadata = pod["metadata"]
        self._mounts.release(_key(pod))
        options = Deletion(grace_period=0, uid=metadata["uid"])
        self._objects.delete(POD, metadata["namespace"], metadata["name"], options)

    def _report_back_off(self, pod: JSON, before: PodRun, after: PodRun) -> None:
        for old, new in zip(before.containers, after.containers, strict=True):
            if new.step is Step.BACKING_OFF and new.state != old.state:
                message = (
                    f"Back-off restarting failed container {new.spec['name']} in pod "
                    f"{full_name(pod)}"
                )
                self._report.other("kubelet", pod, "Warning", "BackOff", message)

    def _grace_left(self, pod: JSON) -> float:
        """Return the seconds until a deleted pod's containers are killed."""
        metadata = pod["metadata"]
        grace: int = metadata.get("deletionGracePeriodSeconds", 0)
        due = parse_time(metadata["deletionTimestamp"])
        passed = self._clock.now() - (due - timedelta(seconds=grace))
        return max(0.0, grace * self._grace_scale - passed.total_seconds())

    def _deadline(self, pod: JSON, now: Moment) -> float | None:
        """Return when a pod has been active for too long, on the monotonic clock."""
        seconds = pod["spec"].get("activeDeadlineSeconds")
        if seconds is None:
            return None
        began = pod.get("status", {}).get("startTime")
        passed = self._clock.now() - parse_time(began) if began else timedelta()
        return now.seconds + float(seconds) - passed.total_seconds()

    def _is_stopped(self, pod: JSON) -> bool:
        """Tell whether the kubelet of the pod's node is stopped."""
        node = self._nodes.get(("", pod["spec"].get("nodeName", "")))
        return node is not None and is_stopped(node.obj)

    def _now(self) -> Moment:
        return Moment(self._clock.monotonic(), format_time(self._clock.now()))


def _key(pod: JSON) -> Key:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def _is_over(pod: JSON) -> bool:
    return pod.get("status", {}).get("phase") in ("Failed", "Succeeded")


def _needs_attention(pod: JSON) -> bool:
    """Tell whether a pod in which nothing is due may need a change of its status."""
    spec = pod["spec"]
    return bool(
        spec.get("activeDeadlineSeconds") is not None
        or spec.get("readinessGates")
        or list(_images(pod)) != list(_images_of_status(pod))
    )


def _images(pod: JSON) -> Iterator[str]:
    for name in ("initContainers", "containers"):
        yield from (each["image"] for each in pod["spec"].get(name, ()))


def _images_of_status(pod: JSON) -> Iterator[str]:
    for name in ("initContainerStatuses", "containerStatuses"):
        yield from (each.get("image", "") for each in pod["status"].get(name, ()))


def _gates_differ(pod: JSON, run: PodRun) -> bool:
    """Tell whether a pod's readiness gates make it ready, or not ready any more."""
    if not pod["spec"].get("readinessGates"):
        return False
    conditions = pod.get("status", {}).get("conditions", ())
    shown = any(
        each["type"] == "Ready" and each["status"] == "True" for each in conditions
    )
    return is_ready(pod, run) != shown
