"""The dispatcher calls exactly the handlers that a change concerns."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import controller_of
from controller_manager.informers.changes import ALL_PARTS, DependsOn
from controller_manager.informers.dispatch import Dispatcher, Handler, Registration
from controller_manager.informers.store import (
    BY_CONTROLLER,
    BY_LABEL,
    ORPHANS,
    Index,
    Store,
)
from tests.informers.parts import PARTS, parts_of, pods

Calls = list[tuple[str, int]]

_DECLARATIONS = st.one_of(
    st.none(),
    st.builds(
        lambda paths: DependsOn(*sorted(paths)), st.sets(st.sampled_from(tuple(PARTS)))
    ),
)
_HANDLERS = st.lists(
    st.tuples(_DECLARATIONS, st.sampled_from(("", "ReplicaSet", "Job"))), max_size=6
)
Declared = list[tuple[DependsOn | None, str]]


class Dispatched:
    def __init__(self, declared: Declared) -> None:
        self.calls: Calls = []
        self.store: Store[Pod] = Store()
        self.errors: list[str] = []
        self.dispatcher: Dispatcher[Pod] = Dispatcher(
            self.store.comparison, lambda _, error, __: self.errors.append(str(error))
        )
        self.registrations = [
            self.add(number, *each) for number, each in enumerate(declared)
        ]

    def add(
        self, number: int, depends_on: DependsOn | None = None, kind: str = ""
    ) -> Registration[Pod]:
        handler: Handler[Pod] = Handler(
            on_add=lambda _: self.calls.append(("add", number)),
            on_update=lambda _, __: self.calls.append(("update", number)),
            on_delete=lambda _: self.calls.append(("delete", number)),
            depends_on=depends_on,
            owner_kind=kind,
        )
        registration = Registration(handler, self.store, asyncio.Event())
        self.dispatcher.add(registration)
        return registration

    def update(self, old: Pod, new: Pod) -> Calls:
        earlier, self.calls = self.calls, []
        changed = self.store.comparison.changed(old, new)
        self.store.put(new, "n/p", changed)
        self.dispatcher.updated("n/p", old, new, changed)
        found, self.calls = self.calls, earlier
        return found


def _is_owned(pod: Pod, kind: str) -> bool:
    owner = controller_of(pod)
    return not kind or owner is None or owner.kind == kind


def _has_changed(depends_on: DependsOn | None, old: Pod, new: Pod) -> bool:
    if depends_on is None:
        return True
    before, after = parts_of(old), parts_of(new)
    return any(before[path] != after[path] for path in depends_on.parts)


@given(declared=_HANDLERS, versions=st.lists(pods(), min_size=2, max_size=5))
def test_exactly_the_handlers_that_a_change_concerns_are_called_in_their_order(
    declared: Declared, versions: list[Pod]
) -> None:
    dispatched = Dispatched(declared)
    first, last = versions[0], versions[-1]
    dispatched.dispatcher.added(first)
    expected: Calls = []
    for number, (_, kind) in enumerate(declared):
        if _is_owned(first, kind):
            expected.append(("add", number))
    for old, new in itertools.pairwise(versions):
        dispatched.calls.extend(dispatched.update(old, new))
        for number, (depends_on, kind) in enumerate(declared):
            owned = _is_owned(old, kind) or _is_owned(new, kind)
            if owned and _has_changed(depends_on, old, new):
                expected.append(("update", number))
    dispatched.dispatcher.deleted("n/p", last)
    for number, (_, kind) in enumerate(declared):
        if _is_owned(last, kind):
            expected.append(("delete", number))
    assert dispatched.calls == expected
    assert dispatched.errors == []


@given(declared=_HANDLERS, old=pods(), new=pods())
def test_a_handler_that_has_not_got_the_object_yet_gets_it_as_a_new_one(
    declared: Declared, old: Pod, new: Pod
) -> None:
    dispatched = Dispatched(declared)
    dispatched.store.put(old, "n/p")
    dispatched.store.put(old, "n/q")
    late = [("", None), ("Job", DependsOn()), ("", DependsOn("status.phase"))]
    for number, (kind, depends_on) in enumerate(late, start=100):
        dispatched.add(number, depends_on, kind)
    found = [each for each in dispatched.update(old, new) if each[1] >= 100]
    assert found == [
        ("add", number)
        for number, (kind, _) in enumerate(late, start=100)
        if _is_owned(new, kind)
    ]
    dispatched.dispatcher.deleted("n/q", old)
    assert [each for each in dispatched.calls if each[1] >= 100] == []
    dispatched.calls.clear()
    again = [each for each in dispatched.update(new, old) if each[1] >= 100]
    assert again == [
        ("update", number)
        for number, (kind, depends_on) in enumerate(late, start=100)
        if (_is_owned(old, kind) or _is_owned(new, kind))
        and _has_changed(depends_on, old, new)
    ]


@given(declared=_HANDLERS, pod=pods())
def test_a_resync_calls_the_handlers_of_owners(declared: Declared, pod: Pod) -> None:
    """They may have missed something, so they get every object now and then."""
    dispatched = Dispatched(declared)
    dispatched.dispatcher.updated("n/p", pod, pod, ALL_PARTS)
    assert dispatched.calls == [
        ("update", number)
        for number, (_, kind) in enumerate(declared)
        if _is_owned(pod, kind)
    ]


@given(declared=_HANDLERS, old=pods(), new=pods(), removed=st.integers(0, 5))
def test_a_removed_handler_is_not_called_any_more(
    declared: Declared, old: Pod, new: Pod, removed: int
) -> None:
    dispatched = Dispatched(declared)
    before = dispatched.update(old, new)
    if removed < len(declared):
        dispatched.dispatcher.remove(dispatched.registrations[removed])
    dispatched.update(new, old)
    expected = [each for each in before if each[1] != removed]
    assert dispatched.update(old, new) == expected


@pytest.mark.parametrize("is_replaying", [False, True])
def test_a_handler_that_fails_does_not_stop_the_others(*, is_replaying: bool) -> None:
    """Its failure is reported with the object."""
    old, new = (
        msgspec.convert(
            {"metadata": {"namespace": "n", "name": "p"}, "spec": each}, Pod
        )
        for each in ({}, {"nodeName": "node"})
    )
    dispatched = Dispatched([(None, "")])
    failing: Handler[Pod] = Handler(on_add=_fail, on_update=_fail, on_delete=_fail)
    dispatched.dispatcher.add(Registration(failing, dispatched.store, asyncio.Event()))
    dispatched.add(2)
    if is_replaying:
        dispatched.store.put(old, "n/other")
        dispatched.add(3)
    dispatched.dispatcher.added(old)
    dispatched.calls.extend(dispatched.update(old, new))
    dispatched.dispatcher.deleted("n/p", new)
    numbers = (0, 2, 3) if is_replaying else (0, 2)
    kinds = ("add", "update", "delete")
    assert dispatched.calls == [(kind, each) for kind in kinds for each in numbers]
    assert dispatched.errors == ["broken"] * 3


def _fail(*_: object) -> None:
    msg = "broken"
    raise RuntimeError(msg)


def _values_of(path: str) -> Callable[[Any], list[str]]:
    return lambda pod: [repr(parts_of(pod)[path])]


@pytest.mark.slow
@given(
    versions=st.lists(st.sampled_from("pq").flatmap(pods), min_size=1, max_size=8),
    paths=st.sets(st.sampled_from(tuple(PARTS))),
)
def test_indexes_that_name_their_parts_equal_those_of_a_new_store(
    versions: list[Pod], paths: set[str]
) -> None:
    """The store updates only the indexes whose parts have changed."""
    own = [
        Index(path, _values_of(path), depends_on=DependsOn(path))
        for path in sorted(paths)
    ]
    store, fresh = Store[Pod](), Store[Pod]()
    for index in (*own, BY_CONTROLLER, BY_LABEL, ORPHANS):
        store.add_index(index)
        fresh.add_index(index)
    for each in versions:
        store.put(each)
    for pod in store:
        fresh.put(replace(pod))
    assert _contents(store) == _contents(fresh)


def _contents(store: Store[Pod]) -> dict[str, dict[str, set[str]]]:
    return {
        name: {value: set(keys) for value, keys in entries.keys.items()}
        for name, entries in store._indexes.items()
    }
