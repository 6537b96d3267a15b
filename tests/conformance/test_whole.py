"""The second form of recordings leaves out what differs between two runs."""

from controller_manager.api.json_objects import JSON
from tests.conformance.whole import WholeForm

CREATED = "2026-01-01T00:00:00Z"


def pod(suffix: str) -> JSON:
    """Return one of a replica set's pods."""
    return {
        "metadata": {
            "name": f"web-7d9f-{suffix}",
            "generateName": "web-7d9f-",
            "uid": f"u-{suffix}",
            "creationTimestamp": CREATED,
            "labels": {"pod-template-hash": "7d9f"},
            "annotations": {"of": f"u-{suffix}", "at": CREATED},
        },
        "spec": {"containers": [{"image": "app:v1"}]},
        "status": {"phase": "Pending"},
    }


def test_generated_values_have_aliases_and_equal_values_stand_once() -> None:
    made = "Pod web-7d9f-abcde made"
    event = {
        "involvedObject": {"kind": "Pod", "name": "web-7d9f-abcde"},
        "type": "Normal",
        "reason": "Made",
        "source": {"component": "test"},
        "message": made,
    }
    lists = {"Pod": [pod("abcde"), pod("fghij")], "Event": [event]}
    form = WholeForm()
    form.learn({**each, "kind": "Pod"} for each in lists["Pod"])
    assert form.state(lists) == {
        "Pod": [
            {
                "name": "web-HASH1-*",
                "labels": {"pod-template-hash": "HASH1"},
                "annotations": {"of": "UID:Pod/web-HASH1-*", "at": "TIME"},
                "phase": "Pending",
                "images": ["app:v1"],
                "count": 2,
            }
        ],
        "Event": ["Pod/web-HASH1-* Normal Made [test]: Pod web-HASH1-* made"],
    }


def test_a_status_says_whether_it_is_about_the_present_spec() -> None:
    """No generations are shown; templates have only fields that controllers read."""
    deployment = {
        "metadata": {
            "name": "web",
            "namespace": "n",
            "uid": "00000000-0000-4000-8000-000000000000",
            "generation": 2,
            "creationTimestamp": CREATED,
            "deletionTimestamp": CREATED,
        },
        "spec": {"template": {"metadata": {}, "spec": pod("a")["spec"]}},
        "status": {
            "observedGeneration": 1,
            "conditions": [
                {"type": "Progressing", "reason": "ReplicaSetUpdated", "message": "x"},
                {"type": "Available", "status": "True", "lastTransitionTime": CREATED},
            ],
        },
    }
    lists = {"Pod": [], "Event": [], "Deployment": [deployment]}
    assert WholeForm(["Deployment"]).state(lists) == {
        "Pod": [],
        "Event": [],
        "Deployment": [
            {
                "metadata": {"name": "web", "deletionTimestamp": "SET"},
                "spec": {
                    "template": {
                        "labels": None,
                        "annotations": None,
                        "images": ["app:v1"],
                    }
                },
                "status": {
                    "observedGeneration": "BEHIND",
                    "conditions": [
                        {"type": "Available", "status": "True"},
                        {
                            "type": "Progressing",
                            "reason": "(in progress)",
                            "message": "",
                        },
                    ],
                },
            }
        ],
    }


def test_a_recording_says_what_more_is_shown_and_what_less() -> None:
    volumes = [{"name": "b"}, {"name": "a", "emptyDir": {}}]
    stateful = pod("abcde")
    stateful["spec"]["volumes"] = volumes
    stateful["spec"]["hostNetwork"] = False
    event = {
        "involvedObject": {"kind": "Pod", "name": "x"},
        "type": "Normal",
        "reporting": "",
        "reportingComponent": "test",
    }
    events = [
        {**event, "reason": "Missing", "message": "no job"},
        {**event, "reason": "Denied", "message": "requested: pods=1, used: pods=2"},
    ]
    form = WholeForm([], [], ["spec.volumes", "spec.hostNetwork"], ["Pod/x .* Missing"])
    state = form.state({"Pod": [stateful], "Event": events})
    assert state["Pod"][0]["spec.volumes"] == [volumes[1], volumes[0]]
    assert "spec.hostNetwork" not in state["Pod"][0]
    assert state["Event"] == ["Pod/x Normal Denied [test]: requested, used"]
