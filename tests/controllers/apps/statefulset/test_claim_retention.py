"""Claims get the owners that the retention policy requires, and no others."""

from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.controllers.apps.statefulset.identity import (
    corrected_owners,
    has_conflict,
    missing_claims,
)
from tests.controllers.apps.statefulset.builders import (
    claim,
    claim_template,
    owner,
    pod,
    stateful_set,
)

SET = owner("StatefulSet", "web")
OTHER = owner("Database", "db")
BYSTANDER = owner("ConfigMap", "note", controller=False)


def policy(deleted: str, scaled: str) -> dict[str, Any]:
    given = {"whenDeleted": deleted, "whenScaled": scaled}
    return {"persistentVolumeClaimRetentionPolicy": given}


def corrected(ordinal: int, *owners: JSON, **spec: Any) -> list[str] | None:
    """Return the kinds of the corrected owners of a claim, `None` if they are right.

    The set wants one pod, so the pod 1 is condemned.
    """
    subject, of_pod = stateful_set(1, **spec), pod(ordinal)
    found = corrected_owners(claim("c", *owners), subject, of_pod)
    return None if found is None else [each.kind for each in found]


@pytest.mark.parametrize(
    ("deleted", "scaled", "wanted", "condemned"),
    [
        ("Retain", "Retain", [], []),
        ("Delete", "Retain", ["StatefulSet"], ["StatefulSet"]),
        ("Retain", "Delete", [], ["Pod"]),
        ("Delete", "Delete", ["StatefulSet"], ["Pod"]),
    ],
)
def test_each_policy_has_its_owners(
    deleted: str, scaled: str, wanted: list[str], condemned: list[str]
) -> None:
    """From any owners that the claim had under an earlier policy."""
    spec = policy(deleted, scaled)
    for ordinal, expected in ((0, wanted), (1, condemned)):
        of_pod = owner("Pod", f"web-{ordinal}")
        for before in ([], [SET], [of_pod], [SET, of_pod]):
            kinds = [each["kind"] for each in before]
            result = None if kinds == expected else expected
            assert corrected(ordinal, *before, **spec) == result


def test_without_a_policy_claims_are_retained() -> None:
    """An old API server sets no default."""
    assert corrected(0) is None
    assert corrected(0, SET) == []


def test_other_owners_stay_beside() -> None:
    """The controller does not change references to others."""
    spec = policy("Delete", "Retain")
    assert corrected(0, BYSTANDER, **spec) == ["ConfigMap", "StatefulSet"]
    assert corrected(0, BYSTANDER, SET, **policy("Retain", "Retain")) == ["ConfigMap"]


def created(*owners: JSON, **spec: Any) -> list[str]:
    """Return the kinds of the owners of a new claim whose template has `owners`."""
    templates = [claim_template(ownerReferences=list(owners))]
    subject = stateful_set(1, volumeClaimTemplates=templates, **spec)
    (made,) = missing_claims(subject, 0, {})
    return [each.kind for each in made.metadata.owner_references or ()]


def test_a_new_claim_has_the_owners_of_its_template() -> None:
    """Operators write them, so that the claims are deleted with their object."""
    retained, deleted = policy("Retain", "Retain"), policy("Delete", "Retain")
    assert created(OTHER, **retained) == ["Database"]
    assert created(BYSTANDER, **deleted) == ["ConfigMap", "StatefulSet"]
    assert created(SET, **deleted) == ["StatefulSet"]
    # The API server refuses a second controller.
    assert created(OTHER, **deleted) == ["Database"]


def test_an_owner_that_is_no_controller_becomes_one() -> None:
    """As upstream writes it."""
    weak = owner("StatefulSet", "web", controller=False)
    assert corrected(0, weak, **policy("Delete", "Retain")) == ["StatefulSet"]


def test_a_claim_of_another_controller_is_left_to_it() -> None:
    """References to the set and the pod are removed, none are added."""
    spec = policy("Delete", "Delete")
    assert corrected(0, OTHER, **spec) is None
    assert corrected(0, OTHER, SET, **spec) == ["Database"]
    assert has_conflict(claim("c", OTHER), stateful_set(**spec), pod(0))
    retained = policy("Retain", "Retain")
    assert not has_conflict(claim("c", OTHER), stateful_set(**retained), pod(0))


@pytest.mark.parametrize("kind", [("StatefulSet", "web"), ("Pod", "web-0")])
def test_a_claim_of_an_earlier_namesake_is_not_touched(kind: tuple[str, str]) -> None:
    """The garbage collector deletes it, or removes that owner."""
    earlier = owner(*kind, "earlier")
    for deleted in ("Retain", "Delete"):
        assert corrected(0, earlier, **policy(deleted, "Retain")) is None
