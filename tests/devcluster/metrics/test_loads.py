"""Annotations set the load of pods."""

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.metrics import SettingsError, loads_of
from tests.devcluster.metrics.pods import annotated, running

WEB = {"uid": "web", "controller": True}
IDLE = {"cpu": "1m", "memory": "8Mi"}


def alone(obj: JSON) -> JSON | None:
    del obj
    return None


def test_a_pod_without_annotations_is_idle() -> None:
    pods = [running("a", "c", "side")]
    assert loads_of(pods, alone) == {"a": {"c": IDLE, "side": IDLE}}


def test_the_first_container_bears_the_load_of_a_pod() -> None:
    annotations = {
        "devcluster/cpu": "200m",
        "devcluster/memory": " 64Mi ",
        "devcluster/cpu.side": "50m",
        "devcluster/memory.c": "1Gi",
    }
    pods = [running("a", "c", "side", annotations=annotations)]
    assert loads_of(pods, alone) == {
        "a": {
            "c": {"cpu": "200m", "memory": "1Gi"},
            "side": {"cpu": "50m", "memory": "8Mi"},
        }
    }


def test_a_total_is_shared_by_the_pods_of_its_workload() -> None:
    """Pods of another workload with the same annotation share their own."""
    owners = {
        "web": annotated("web", {"devcluster/cpu": "total:1"}),
        "api": annotated("api", {"devcluster/cpu": "total:1"}),
    }
    pods = [
        *(running(f"web-{number}", ownerReferences=[WEB]) for number in range(3)),
        running("api-0", ownerReferences=[{"uid": "api", "controller": True}]),
    ]

    def owner_of(obj: JSON) -> JSON | None:
        references = obj["metadata"].get("ownerReferences", ())
        return owners[references[0]["uid"]] if references else None

    found = loads_of(pods, owner_of)
    shares = {name: usage["c"]["cpu"] for name, usage in found.items()}
    assert shares == {
        "web-0": "333m",
        "web-1": "333m",
        "web-2": "333m",
        "api-0": "1000m",
    }


def test_a_total_is_shared_also_with_pods_that_are_not_asked_for() -> None:
    owner = annotated("web", {"devcluster/cpu": "total:1"})
    pods = [running(f"web-{number}", ownerReferences=[WEB]) for number in range(4)]
    idle = running("idle")

    def owner_of(obj: JSON) -> JSON | None:
        return owner if obj["metadata"].get("ownerReferences") else None

    found = loads_of(pods[:1], owner_of, lambda: [*pods, idle])
    assert found == {"web-0": {"c": {"cpu": "250m", "memory": "8Mi"}}}

    def nobody() -> list[JSON]:
        raise AssertionError

    assert loads_of([idle], owner_of, nobody) == {"idle": {"c": IDLE}}


def test_a_pod_goes_before_the_outermost_workload() -> None:
    deployment = annotated("web", {"devcluster/cpu": "300m"})
    replica_set = annotated("web-1", {"devcluster/cpu": "100m"})
    own = {"devcluster/cpu": "5m"}
    pods = [
        running("a", ownerReferences=[WEB]),
        running("b", ownerReferences=[WEB], annotations=own),
    ]

    def owner_of(obj: JSON) -> JSON | None:
        if obj is deployment:
            return None
        return deployment if obj is replica_set else replica_set

    found = loads_of(pods, owner_of)
    assert {name: usage["c"]["cpu"] for name, usage in found.items()} == {
        "a": "300m",
        "b": "5m",
    }


@pytest.mark.parametrize("text", ["", "much", "total:", "-1", "1 core"])
def test_a_wrong_load_is_reported(text: str) -> None:
    pods = [running("a", annotations={"devcluster/cpu": text})]
    with pytest.raises(SettingsError) as raised:
        loads_of(pods, alone)
    assert str(raised.value) == (
        'annotation devcluster/cpu of Pod a: must be a quantity such as "200m", or '
        f'"total:2" to share it, it is {text!r}'
    )
