"""Listers return by index the same objects as a walk over all objects."""

import random
from collections.abc import Sequence

import msgspec
import pytest

from controller_manager.api.apps.v1 import ReplicaSet
from controller_manager.api.core.v1 import Node, Pod
from controller_manager.api.meta import labels_of
from controller_manager.api.selectors import (
    NOTHING,
    LabelSelector,
    LabelSelectorRequirement,
    compile_selector,
    parse_selector,
)
from controller_manager.informers import store


def orphan(name: str, **labels: str) -> Pod:
    metadata = {"name": name, "namespace": "n", "labels": labels}
    return msgspec.convert({"metadata": metadata}, Pod)


def owner(name: str, selector: LabelSelector | None) -> ReplicaSet:
    empty = msgspec.json.decode(b"{}", type=ReplicaSet)
    metadata = msgspec.structs.replace(empty.metadata, name=name, namespace="n")
    spec = msgspec.structs.replace(empty.spec, selector=selector)
    return msgspec.structs.replace(empty, metadata=metadata, spec=spec)


def found(objects: Sequence[Pod | ReplicaSet]) -> list[str]:
    return sorted(each.metadata.name for each in objects)


def test_orphans_and_owners_are_those_that_a_scan_would_find() -> None:
    seed = random.randrange(2**32)
    rng = random.Random(seed)

    def labels() -> dict[str, str]:
        return {k: rng.choice("xy") for k in "abc" if rng.random() < 0.6}

    def selector() -> LabelSelector:
        expressions = tuple(
            LabelSelectorRequirement(key=key, operator="Exists")
            for key in "abc"
            if rng.random() < 0.2
        )
        return LabelSelector(match_labels=labels(), match_expressions=expressions)

    pods: store.Store[Pod] = store.Store()
    owners: store.Store[ReplicaSet] = store.Store()
    pod_lister = store.Lister(pods, "Pod", store.ORPHANS, store.ORPHANS_BY_LABEL)
    owner_lister = store.Lister(owners, "ReplicaSet", store.BY_SELECTED_LABEL)
    for number in range(60):
        pods.put(orphan(f"p{number}", **labels()))
        owners.put(owner(f"o{number}", selector()))
    for each in owners:
        compiled = compile_selector(each.spec.selector)
        expected = [p for p in pods if compiled.matches(p.metadata.labels or {})]
        assert found(pod_lister.orphans("n", compiled)) == found(expected), seed
    for pod in pods:
        labelled = pod.metadata.labels or {}
        selecting = [
            each
            for each in owners
            if labelled
            and not compile_selector(each.spec.selector).is_empty
            and compile_selector(each.spec.selector).matches(labelled)
        ]
        assert found(owner_lister.selecting(pod)) == found(list(selecting)), seed


def test_objects_with_labels_are_those_that_a_scan_would_find() -> None:
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    pods: store.Store[Pod] = store.Store()
    lister = store.Lister(pods, "Pod", store.BY_LABEL)

    def labels() -> dict[str, str]:
        return {key: rng.choice("xy") for key in "abc" if rng.random() < 0.6}

    for _ in range(200):
        pods.put(orphan(f"pod-{rng.randrange(50)}", **labels()))
    for _ in range(50):
        wanted = labels() or {"a": "x"}
        scanned = [each for each in pods if wanted.items() <= labels_of(each).items()]
        assert found(lister.labelled("n", wanted)) == found(scanned), seed
        assert lister.labelled("other", wanted) == []


def test_a_selector_matches_what_a_scan_would_find() -> None:
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    pods: store.Store[Pod] = store.Store()
    lister = store.Lister(pods, "Pod", store.BY_LABEL, store.BY_NAMESPACE)

    def expression() -> LabelSelectorRequirement:
        operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist"))
        values = rng.sample("xyz", rng.randint(1, 2)) if "In" in operator else ()
        return LabelSelectorRequirement(
            key=rng.choice("abc"), operator=operator, values=tuple(values)
        )

    for number in range(100):
        labels = {key: rng.choice("xyz") for key in "abc" if rng.random() < 0.6}
        pods.put(orphan(f"pod-{number}", **labels))
    for _ in range(100):
        exact = {key: rng.choice("xyz") for key in "abc" if rng.random() < 0.2}
        expressions = tuple(expression() for _ in range(rng.randint(0, 2)))
        selector = compile_selector(
            LabelSelector(match_labels=exact, match_expressions=expressions)
        )
        scanned = [each for each in pods if selector.matches(labels_of(each))]
        matching = lister.matching("n", selector)
        assert found(matching) == found(scanned), seed
        assert len(matching) == len(scanned), seed
        assert lister.matching("other", selector) == []
    assert lister.matching("n", NOTHING) == []


def test_a_selector_that_wants_two_values_of_a_label_matches_nothing() -> None:
    """Only the text of a selector, such as that of a scale, can say so."""
    pods: store.Store[Pod] = store.Store()
    lister = store.Lister(pods, "Pod", store.BY_LABEL, store.BY_NAMESPACE)
    pods.put(orphan("web", app="web"))
    pods.put(orphan("api", app="api"))
    assert lister.matching("n", parse_selector("app=web,app=api")) == []
    assert found(lister.matching("n", parse_selector("app=web,app=web"))) == ["web"]


def test_an_owner_without_a_usable_selector_selects_nothing() -> None:
    owners: store.Store[ReplicaSet] = store.Store()
    lister = store.Lister(owners, "ReplicaSet", store.BY_SELECTED_LABEL)
    bad = LabelSelectorRequirement(key="a", operator="Near")
    for name, selector in (
        ("absent", None),
        ("empty", LabelSelector()),
        ("invalid", LabelSelector(match_expressions=(bad,))),
    ):
        owners.put(owner(name, selector))
    assert lister.selecting(orphan("p", a="x")) == []


def owned(name: str, uid: str, owner_name: str = "web") -> Pod:
    reference = {"kind": "ReplicaSet", "name": owner_name, "uid": uid}
    metadata = {
        "name": name,
        "namespace": "n",
        "labels": {"app": name},
        "ownerReferences": [{**reference, "controller": True}],
    }
    return msgspec.convert({"metadata": metadata}, Pod)


def test_objects_are_read_by_name_namespace_and_owner() -> None:
    pods: store.Store[Pod] = store.Store()
    owners: store.Store[ReplicaSet] = store.Store()
    pod_lister = store.Lister(pods, "Pod", store.BY_NAMESPACE, store.BY_CONTROLLER)
    owner_lister = store.Lister(owners, "ReplicaSet")
    web = msgspec.convert(
        {"metadata": {"name": "web", "namespace": "n", "uid": "1"}}, ReplicaSet
    )
    owners.put(web)
    first, second = owned("a", "1"), owned("b", "2")
    pods.put(first)
    pods.put(second)
    assert pod_lister.get("n", "a") == pod_lister.by_key("n/a") == first
    assert pod_lister.get("other", "a") is None
    assert list(pod_lister.list("n")) == [first, second]
    selector = compile_selector(LabelSelector(match_labels={"app": "b"}))
    assert list(pod_lister.list("n", selector)) == [second]
    assert list(pod_lister.list("other")) == []
    assert list(pod_lister.controlled_by(web)) == [first]
    assert owner_lister.controller_of(first) == web
    assert owner_lister.controller_of(second) is None
    assert (len(pod_lister), list(pod_lister.keys())) == (2, ["n/a", "n/b"])


def test_a_lister_has_only_the_indexes_that_it_was_created_with() -> None:
    """It must not use an index that only another lister of the cache declared."""
    pods: store.Store[Pod] = store.Store()
    store.Lister(pods, "Pod", store.BY_NAMESPACE)
    with pytest.raises(LookupError) as raised:
        store.Lister(pods, "Pod", store.BY_CONTROLLER).list("n")
    assert str(raised.value) == (
        "the lister of Pod has no index namespace; name the index where the lister "
        "is created"
    )


def test_an_owner_may_be_of_no_namespace_and_have_no_selector() -> None:
    nodes: store.Store[Node] = store.Store()
    lister = store.Lister(nodes, "Node", store.BY_SELECTED_LABEL)
    node = msgspec.convert({"metadata": {"name": "m", "uid": "1"}}, Node)
    nodes.put(node)
    nodes.put(node)
    reference = {"kind": "Node", "name": "m", "uid": "1", "controller": True}
    metadata = {"name": "p", "namespace": "n", "ownerReferences": [reference]}
    pod = msgspec.convert({"metadata": metadata}, Pod)
    assert lister.controller_of(pod) == node
    assert list(lister.selecting(orphan("p", a="x"))) == []
