"""The pure parts of explanations, by table."""

import pytest

from controller_manager.api.meta import AnyResource
from controller_manager.explain.cause import Cause, Reference, State, merged, symptom
from controller_manager.explain.pods import condensed, remedy_for
from controller_manager.explain.target import known_kind

_NO_ROOM = (
    "0/6 nodes are available: 1 node(s) had untolerated taint {a: b}, 2 node(s) were "
    "unschedulable, 3 Insufficient cpu. preemption: 0/6 nodes are available: 3 No "
    "preemption victims found for incoming pod, 3 Preemption is not helpful."
)


@pytest.mark.parametrize(
    ("message", "short", "remedy"),
    [
        (
            _NO_ROOM,
            (
                "none of 6 nodes fits: 3 Insufficient cpu, 2 node(s) were "
                "unschedulable, 1 node(s) had untolerated taint {a: b}"
            ),
            "lower the requests of the pod, or add nodes with more room",
        ),
        (
            (
                "0/1 nodes are available: 1 node(s) didn't match Pod's node "
                "affinity/selector. no new claims to deallocate, preemption: 0/1 nodes"
            ),
            "none of 1 nodes fits: 1 node(s) didn't match Pod's node affinity/selector",
            "correct the nodeSelector or affinity of the pod, or label a node",
        ),
        (
            'persistentvolumeclaim "data" not found',
            'persistentvolumeclaim "data" not found',
            "create the claim, or correct its name in the pod",
        ),
        (
            "no nodes available to schedule pods",
            "no nodes available to schedule pods",
            "correct the requirements of the pod, or add nodes that meet them",
        ),
        (
            "",
            "no node fits",
            "correct the requirements of the pod, or add nodes that meet them",
        ),
    ],
)
def test_the_schedulers_words_are_short(message: str, short: str, remedy: str) -> None:
    assert (condensed(message), remedy_for(message)) == (short, remedy)


@pytest.mark.parametrize(
    ("word", "resource"),
    [
        ("deploy", "deployments.apps"),
        ("Deployment", "deployments.apps"),
        ("deployments.apps", "deployments.apps"),
        ("deployments.v1.apps", "deployments.apps"),
        ("po", "pods"),
        ("sts", "statefulsets.apps"),
        ("pods.apps", None),
        ("widgets", None),
    ],
)
def test_a_kind_is_written_as_for_kubectl(word: str, resource: str | None) -> None:
    found: AnyResource | None = known_kind(word)
    assert (found and found.group_resource) == resource


def _cause(name: str, state: State, since: str = "", code: str = "X") -> Cause:
    reference = Reference("v1", "Pod", "shop", name)
    return Cause(code=code, state=state, what="x", object=reference, since=since)


def test_like_causes_are_merged_into_the_first_with_the_earliest_time() -> None:
    other = _cause("c", State.STUCK, "2026-01-01T00:00:03Z", "Y")
    causes = [
        _cause("b", State.STUCK, "2026-01-01T00:00:01Z"),
        other,
        _cause("a", State.STUCK, "2026-01-01T00:00:02Z"),
    ]
    first = Cause(
        code="X",
        state=State.STUCK,
        what="x",
        object=Reference("v1", "Pod", "shop", "a"),
        since="2026-01-01T00:00:01Z",
        count=2,
    )
    assert merged(causes) == (first, other)


def test_a_symptom_has_the_worst_state_of_its_causes_the_worst_first() -> None:
    moving, stuck = _cause("a", State.PROGRESSING), _cause("b", State.STUCK)
    found = symptom(_cause("web", State.HEALTHY), [moving, stuck])
    assert (found.state, found.because) == (State.STUCK, (stuck, moving))
