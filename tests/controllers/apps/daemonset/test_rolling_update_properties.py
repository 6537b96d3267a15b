"""Every update ends, and keeps its bounds in each step."""

from collections.abc import Iterator, Mapping
from datetime import datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from controller_manager.api.apps.v1 import DaemonSet
from controller_manager.api.core.v1 import Pod
from controller_manager.api.scalars import scaled_value
from controller_manager.controllers.apps.daemonset.backoff import NO_DELAYS
from controller_manager.controllers.apps.daemonset.nodes import Fit, target_of
from controller_manager.controllers.apps.daemonset.pods import (
    DaemonPods,
    Plan,
    manage_pods,
)
from controller_manager.controllers.apps.daemonset.rolling_update import plan_update
from tests.controllers.apps.daemonset.cases import (
    NEW,
    NOW,
    daemon_set,
    placed_of,
    pod,
)

_NODES = tuple(f"n{number}" for number in range(1, 7))
_STEPS = 60
"""More syncs than any update of these nodes takes."""

bounds = st.sampled_from(
    [(0, 1), (0, 2), (0, "50%"), (1, 0), ("50%", 0), (2, 1), (0, 0)]
)
fits = st.fixed_dictionaries(
    dict.fromkeys(_NODES, st.sampled_from([Fit.RUN, Fit.RUN, Fit.KEEP, Fit.NONE]))
)


@st.composite
def old_pods(draw: st.DrawFn) -> list[Pod]:
    """Return pods of one or two revisions, in any state, up to two on a node."""
    return [
        pod(
            f"{node}-{number}",
            node,
            hash=draw(st.sampled_from(["old", "older", NEW])),
            ready=draw(st.booleans()),
            phase=draw(st.sampled_from(["Running", "Running", "Failed"])),
            bound=draw(st.booleans()) and node != "gone",
            leaving=draw(st.booleans()),
            created=draw(st.integers(0, 3)),
        )
        for node in (*_NODES, "gone")
        for number in range(draw(st.integers(0, 2)))
    ]


class Model:
    """Nodes and pods; created pods become ready, and deleted pods are gone later."""

    def __init__(self, of: DaemonSet, fits: Mapping[str, Fit], pods: list[Pod]) -> None:
        self.of, self.fits, self.pods = of, fits, pods
        self._made = 0

    def placed(self) -> DaemonPods:
        return placed_of(self.pods, self.fits, self.of)

    def carry_out(self, plan: Plan, *, slowly: bool) -> None:
        """Carry out a plan; with `slowly`, pods become ready or gone later."""
        for node in plan.nodes:
            self._made += 1
            self.pods.append(
                pod(
                    f"made-{self._made}",
                    node,
                    ready=not slowly,
                    created=min(4 + self._made, 59),
                )
            )
        gone = {each.pod.metadata.name: each.node for each in plan.deletions}
        self.pods = [
            pod(each.metadata.name, target_of(each), leaving=True, hash=_hash(each))
            if slowly and each.metadata.name in gone
            else each
            for each in self.pods
            if slowly or each.metadata.name not in gone
        ]

    def settle(self) -> None:
        """Remove pods that are being deleted, and make others ready."""
        self.pods = [
            pod(
                each.metadata.name,
                target_of(each),
                hash=_hash(each),
                created=int((each.metadata.creation_timestamp or "")[17:19]),
            )
            for each in self.pods
            if not each.metadata.deletion_timestamp and each.status.phase != "Failed"
        ]


def _hash(each: Pod) -> str:
    return (each.metadata.labels or {})["controller-revision-hash"]


def plan_problems(placed: DaemonPods, plan: Plan, now: datetime) -> Iterator[str]:
    """Yield how a plan of an update breaks the bounds, by the manager's caches."""
    strategy = placed.daemon_set.spec.update_strategy
    rolling = strategy.rolling_update
    if rolling is None:
        if not plan.is_empty:
            yield f"{placed.daemon_set.metadata.name}: OnDelete, but there is a plan"
        return
    wanted = [node for node, fit in placed.fits.items() if fit is Fit.RUN]
    surge, unavailable = (
        scaled_value(each or 0, len(wanted), round_up=True)
        for each in (rolling.max_surge, rolling.max_unavailable)
    )
    most = unavailable or (0 if surge else 1)
    gone = {each.pod.metadata.uid for each in plan.deletions}
    had, left = (
        sum(
            any(
                placed.is_available(pod, now) and pod.metadata.uid not in without
                for pod in placed.staying(node)
            )
            for node in wanted
        )
        for without in (set[str](), gone)
    )
    name = placed.daemon_set.metadata.name
    if left < min(had, len(wanted) - (0 if surge else most)):
        yield f"{name}: {left} of {had} nodes keep an available pod, {most} may not"
    serving = sum(
        any(placed.is_available(pod, now) for pod in placed.staying(node))
        for node in plan.nodes
    )
    if serving > surge:
        yield f"{name}: {serving} second pods beside available ones, surge is {surge}"


def _sync(model: Model, *, slowly: bool) -> bool:
    """Sync once; tell whether pods were created or deleted."""
    managed = manage_pods(model.placed(), NO_DELAYS, NOW)
    model.carry_out(managed, slowly=slowly)
    seen = model.placed()
    updated = plan_update(seen, (), NOW)
    assert list(plan_problems(seen, updated, NOW)) == []
    model.carry_out(updated, slowly=slowly)
    return not (managed.is_empty and updated.is_empty)


@settings(max_examples=60, deadline=None)
@given(bounds=bounds, fits=fits, pods=old_pods(), slow=st.lists(st.booleans()))
def test_every_update_ends_with_one_new_pod_on_each_node(
    bounds: tuple[int | str, int | str],
    fits: dict[str, Fit],
    pods: list[Pod],
    slow: list[bool],
) -> None:
    """From any pods, and even if pods start and end slowly."""
    surge, unavailable = bounds
    model = Model(daemon_set(surge=surge, unavailable=unavailable), fits, pods)
    for number in range(_STEPS):
        if not _sync(model, slowly=number < len(slow) and slow[number]):
            before = len(model.pods)
            model.settle()
            if len(model.pods) == before and not _sync(model, slowly=False):
                break
    else:
        raise AssertionError(model.pods)
    wanted = {node for node, fit in fits.items() if fit is Fit.RUN}
    seen = model.placed()
    assert {node for node in wanted if len(seen.staying(node)) == 1} == wanted
    assert all(seen.is_updated(seen.staying(node)[0]) for node in wanted)
    nowhere = {node for node, fit in fits.items() if fit is Fit.NONE}
    assert not any(seen.staying(node) for node in nowhere)


@settings(max_examples=60, deadline=None)
@given(bounds=bounds, fits=fits, pods=old_pods())
def test_no_pod_is_deleted_twice_and_no_node_gets_a_third_pod(
    bounds: tuple[int | str, int | str], fits: dict[str, Fit], pods: list[Pod]
) -> None:
    """In one sync, and without maxSurge no second one."""
    surge, unavailable = bounds
    of = daemon_set(surge=surge, unavailable=unavailable)
    seen = placed_of(pods, fits, of)
    plan = manage_pods(seen, NO_DELAYS, NOW)
    names = [each.pod.metadata.name for each in plan.deletions]
    assert len(names) == len(set(names))
    assert len(plan.nodes) == len(set(plan.nodes))
    most = 1 if surge == 0 else 2
    gone = {each.pod.metadata.uid for each in plan.deletions}
    for node in plan.nodes:
        staying = [each for each in seen.staying(node) if each.metadata.uid not in gone]
        assert len(staying) < most
