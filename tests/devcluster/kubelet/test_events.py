"""The events of the nodes are stored complete, in the form of an API server."""

import random

import msgspec
import pytest

from controller_manager.clock import LoopClock
from controller_manager.devcluster.apiserver.admission import Chain
from controller_manager.devcluster.apiserver.objects import Objects
from controller_manager.devcluster.kubelet.events import Reporter, normal
from controller_manager.devcluster.registry.events import CORE_EVENTS as EVENT
from controller_manager.devcluster.storage import Storage
from tests.clusters import EPOCH

pytestmark = pytest.mark.looptime

POD = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"namespace": "n", "name": "p", "uid": "1", "resourceVersion": "7"},
    "spec": {"nodeName": "node-0"},
}


def reported() -> Storage:
    storage = Storage()
    storage.collection("namespaces").put(("", "n"), {"metadata": {"name": "n"}})
    clock = LoopClock(EPOCH)
    report = Reporter(Objects(storage, clock, random.Random(1), Chain()))
    report.kubelet(POD, normal("Pulling", "image"), "spec.containers{c}")
    report.scheduler(POD, normal("Scheduled", "there"), "Binding")
    report.scheduler(POD, normal("Preempted", "gone"), "Preempting", POD)
    return storage


async def test_an_event_has_all_fields_that_the_server_fills_in() -> None:
    for stored in reported().collection("events"):
        event = {k: v for k, v in stored.obj.items() if k != "metadata"}
        expected = dict(event)
        EVENT.apply_defaults(expected)
        assert msgspec.json.encode(event) == msgspec.json.encode(expected)
        assert list(stored.obj)[:2] == ["kind", "apiVersion"]
        metadata = stored.obj["metadata"]
        assert metadata["resourceVersion"] == str(stored.version)
        assert list(metadata) == [
            *("name", "namespace", "uid", "creationTimestamp", "resourceVersion")
        ]


async def test_an_event_of_a_name_that_is_taken_replaces_the_other() -> None:
    storage = reported()
    events = storage.collection("events")
    report = Reporter(Objects(storage, LoopClock(EPOCH), random.Random(2), Chain()))
    watcher = events.watch(storage.version)
    report.kubelet(POD, normal("Pulled", "image"))
    [change] = watcher.take()
    assert (len(events), change.type) == (3, "MODIFIED")
