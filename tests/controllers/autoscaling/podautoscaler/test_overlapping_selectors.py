"""Autoscalers that select the same pods are found."""

import pytest

from controller_manager.api.core.v1 import Pod, PodMeta
from controller_manager.api.selectors import parse_selector
from controller_manager.controllers.autoscaling.podautoscaler.selectors import (
    Overlaps,
)


def pod(namespace: str = "default", **labels: str) -> Pod:
    return Pod(metadata=PodMeta(name="p", namespace=namespace, labels=labels))


@pytest.fixture(name="overlaps")
def make_overlaps() -> Overlaps:
    overlaps = Overlaps()
    for key, selector in (
        ("default/exact", "app=web"),
        ("default/narrow", "app=web,tier=front"),
        ("default/sets", "app in (web,api)"),
        ("default/none", "app=other"),
        ("other/exact", "app=web"),
    ):
        overlaps.put(key, parse_selector(selector))
    return overlaps


@pytest.mark.parametrize(
    ("pods", "keys"),
    [
        ([pod(app="web")], ["default/exact", "default/sets"]),
        (
            [pod(app="web", tier="front")],
            ["default/exact", "default/narrow", "default/sets"],
        ),
        ([pod(app="api")], ["default/sets"]),
        ([pod(app="api"), pod(app="other")], ["default/none", "default/sets"]),
        ([pod(tier="front")], []),
        ([], []),
    ],
)
def test_each_autoscaler_that_selects_one_of_the_pods_is_found(
    overlaps: Overlaps, pods: list[Pod], keys: list[str]
) -> None:
    """Only in the namespace of the pods, and in a fixed order."""
    assert overlaps.selecting("default", pods) == keys


def test_selectors_with_a_common_label_are_in_different_buckets() -> None:
    """Each is found by a label that only it has, so the cost does not grow."""
    overlaps = Overlaps()
    for number in range(100):
        selector = parse_selector(f"app=shop,part=p{number}")
        overlaps.put(f"default/{number}", selector)
    together = [len(keys) for keys in overlaps._buckets.values()]
    assert (sum(together), max(together)) == (100, 1)
    assert overlaps.selecting("default", [pod(app="shop", part="p7")]) == ["default/7"]


def test_a_changed_selector_replaces_the_former_one(overlaps: Overlaps) -> None:
    """The target of an autoscaler may change."""
    overlaps.put("default/sets", parse_selector("app=other"))
    assert overlaps.selecting("default", [pod(app="web")]) == ["default/exact"]
    found = overlaps.selecting("default", [pod(app="other")])
    assert found == ["default/none", "default/sets"]


def test_an_autoscaler_that_is_gone_selects_nothing(overlaps: Overlaps) -> None:
    """No data of it is left. To forget an unknown autoscaler is not an error."""
    for key in ("exact", "narrow", "sets", "none", "never"):
        overlaps.forget(f"default/{key}")
    overlaps.forget("other/exact")
    assert overlaps.selecting("default", [pod(app="web")]) == []
    assert vars(overlaps) == vars(Overlaps())
