"""The server accepts and refuses the same writes as a real server.

The recordings of the workloads are the evidence: what users created, and every write
of the real manager with its answer.
"""

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.apiserver.negotiation import check_object
from controller_manager.devcluster.registry import find_kinds
from controller_manager.devcluster.scheme.statuses import Refusal
from tests.clusters import Cluster
from tests.devcluster.registry.orders import Subject
from tests.devcluster.registry.recorded import (
    Recorded,
    compared,
    denormalised,
    filled,
    normal_form,
    recorded,
)

pytestmark = pytest.mark.looptime

RECORDINGS = recorded()
KINDS = {kind.kind: kind for kind in find_kinds()}
CREATED = ("Pod", "ControllerRevision", "PersistentVolumeClaim", "Job")
"""The kinds of the objects that controllers create."""

REPORTED = ("CronJob", "DaemonSet", "Job", "StatefulSet")
"""The kinds whose status controllers write."""

every_recording = pytest.mark.parametrize(
    "recording", RECORDINGS, ids=lambda recording: recording.name
)


def create(cluster: Cluster, namespace: str, kind: Kind, given: JSON) -> JSON:
    body, unknown = check_object(given, kind, kind.version)
    assert unknown == []
    place = namespace if kind.namespaced else ""
    return cluster.server.objects.create(kind, place, body).obj


def test_the_recordings_are_there() -> None:
    assert len(RECORDINGS) == 76


@every_recording
async def test_a_new_object_has_the_recorded_defaults(
    cluster: Cluster, recording: Recorded
) -> None:
    """Whole, but for the status: that is the controllers'."""
    cluster.add_namespace(recording.name)
    for given, entry in recording.untouched():
        kind, name = KINDS[given["kind"]], given["metadata"]["name"]
        obj = create(cluster, recording.name, kind, given)
        assert normal_form(obj) == compared(entry)
        key = (obj["metadata"].get("namespace", ""), name)
        cluster.server.storage.collection(kind.resource).remove(key)


@every_recording
async def test_an_object_can_be_written_back_as_it_is(
    cluster: Cluster, recording: Recorded
) -> None:
    """Nothing changes: its defaults are all there, and none is filled in twice."""
    cluster.add_namespace(recording.name)
    objects = cluster.server.objects
    for given in recording.created():
        kind = KINDS[given["kind"]]
        name = f"{given['metadata']['name']}-again"
        given["metadata"]["name"] = name
        place = recording.name if kind.namespaced else ""
        if objects.storage.collection(kind.resource).get((place, name)) is not None:
            continue
        obj = create(cluster, recording.name, kind, given)
        for subresource in ("", "status") if kind.has_status else ("",):
            body, unknown = check_object(obj, kind, kind.version)
            assert unknown == []
            written = objects.update(kind, place, name, body, subresource)
            assert written.obj == obj


@every_recording
async def test_what_controllers_created_can_be_created(
    cluster: Cluster, recording: Recorded
) -> None:
    """And no pod whose priority class does not exist."""
    cluster.add_namespace(recording.name)
    for code in (403, 201):  # later there is the priority class
        for kind in map(KINDS.__getitem__, CREATED):
            for number, body in enumerate(recording.sent(kind.plural, code)):
                name = body["metadata"].pop("name", "generated")
                body["metadata"]["name"] = f"{name}-{number}"
                if code == 201:
                    create(cluster, recording.name, kind, body)
                    continue
                with pytest.raises(Refusal, match="no PriorityClass with name"):
                    create(cluster, recording.name, kind, body)
        for given in recording.created("PriorityClass"):
            if code == 403:
                create(cluster, "", KINDS["PriorityClass"], given)


def steps_about(recording: Recorded, kind: Kind, name: str) -> list[JSON]:
    """Return the steps of users, and the creations by controllers, of one object."""
    steps = []
    for step in recording.steps:
        (verb, value), *_ = step.items()
        if verb in ("create", "patch", "delete") and value["kind"] == kind.kind:
            value = filled(value)
            if name in (value.get("name"), value.get("metadata", {}).get("name")):
                value.pop("status", None)
                steps.append({verb: value})
    made = [
        {"create": body}
        for body in recording.sent(kind.plural, 201)
        if body["metadata"].get("name") == name
    ]
    return [*steps, *made]


@every_recording
async def test_every_status_is_answered_as_recorded(
    cluster: Cluster, recording: Recorded
) -> None:
    cluster.add_namespace(recording.name)
    for kind in map(KINDS.__getitem__, REPORTED):
        writes = [
            write
            for write in recording.writes
            if write["resource"] == f"{kind.plural}/status"
            and write["verb"] == "update"
            and write["code"] in (200, 422)
        ]
        for alias in sorted({write["name"] for write in writes}):
            name = denormalised(alias)
            steps = steps_about(recording, kind, name)
            mine = [write for write in writes if write["name"] == alias]
            objects = cluster.server.objects
            subject = Subject(objects, kind, recording.name, name)
            order = subject.find_order(steps, mine)
            assert order == (len(steps), len(mine)), name
