"""The claim that gets a volume when the volume becomes available."""

import pytest

from controller_manager.api.core.claims import PersistentVolumeClaim
from controller_manager.api.core.volumes import PersistentVolume
from controller_manager.controllers.storage.volumebinder.matching import WaitingClaims
from tests.controllers.storage.volumebinder.fixtures import COMPLETE, claim, volume

LARGE = claim(resources={"requests": {"storage": "2Gi"}})
LABELLED = claim(selector={"matchLabels": {"a": "b"}})
BROKEN = claim(selector={"matchExpressions": [{"key": "a", "operator": "Near"}]})


@pytest.mark.parametrize(
    ("claims", "offered", "expected"),
    [
        ([], volume(), None),
        ([claim(), claim()], volume(), "0"),
        ([LARGE, LABELLED, BROKEN, claim()], volume(), "3"),
        ([LARGE, claim()], volume(size="2Gi"), "0"),
        ([claim(), LABELLED], volume(metadata={"labels": {"a": "b"}}), "0"),
        ([claim(storageClassName="slow")], volume(), None),
        ([claim(volumeMode="Block")], volume(), None),
        ([claim(accessModes=["ReadWriteMany"])], volume(), None),
        ([claim(volumeName="v"), claim(COMPLETE), claim()], volume(), "2"),
    ],
)
def test_a_volume_is_offered_to_the_oldest_claim_that_it_fits(
    claims: list[PersistentVolumeClaim], offered: PersistentVolume, expected: str | None
) -> None:
    """The claim names no volume, and never had one."""
    waiting = WaitingClaims()
    for number, each in enumerate(claims):
        waiting.put(str(number), each)
    assert waiting.one_for(offered, ()) == expected


def test_each_volume_is_offered_to_another_claim() -> None:
    """Claims that got an offer before do not count."""
    waiting, offered = WaitingClaims(), set[str]()
    for number in range(500):
        waiting.put(str(number), claim())
    for number in range(500):
        assert waiting.one_for(volume(), offered) == str(number)
        offered.add(str(number))
    assert waiting.one_for(volume(), offered) is None


def test_claims_that_no_longer_wait_are_dropped() -> None:
    """They have a volume, want another kind, or are gone."""
    waiting = WaitingClaims()
    for key in "abc":
        waiting.put(key, claim())
    waiting.put("a", claim(volumeName="v"))
    waiting.put("b", claim(storageClassName="slow"))
    waiting.put("c", None)
    waiting.put("never", None)
    assert (len(waiting._kinds), waiting.one_for(volume(), ())) == (1, None)
    waiting.put("b", None)
    assert vars(waiting) == vars(WaitingClaims())
