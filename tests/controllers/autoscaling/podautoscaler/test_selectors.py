"""The pods of a target are those that its selector matches."""

from typing import Any

import msgspec
import pytest

from controller_manager.api.core.v1 import Pod
from controller_manager.api.selectors import parse_selector
from controller_manager.controllers.autoscaling.podautoscaler.selectors import (
    selected,
)
from controller_manager.informers.store import BY_LABEL, BY_NAMESPACE, Lister, Store


@pytest.fixture(name="lister")
def make_lister() -> Lister[Pod]:
    store: Store[Any] = Store()
    for namespace, name, labels in (
        ("n", "c", {"app": "web", "tier": "front"}),
        ("n", "b", {"app": "web", "tier": "back"}),
        ("n", "a", {"app": "api"}),
        ("n", "d", {}),
        ("other", "e", {"app": "web"}),
    ):
        metadata = {"name": name, "namespace": namespace, "labels": labels}
        store.put(msgspec.convert({"metadata": metadata}, Pod))
    return Lister(store, "Pod", BY_LABEL, BY_NAMESPACE)


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("app=web", ["b", "c"]),
        ("app=web,tier=front", ["c"]),
        ("app=web,tier!=front", ["b"]),
        ("app=web,app=api", []),
        ("app in (web,api)", ["a", "b", "c"]),
        ("!app", ["d"]),
        ("app=none", []),
    ],
)
def test_a_selector_of_any_form_selects_in_its_namespace(
    lister: Lister[Pod], selector: str, names: list[str]
) -> None:
    """The pods are in the order of their names."""
    found = selected(lister, "n", parse_selector(selector))
    assert [pod.metadata.name for pod in found] == names
