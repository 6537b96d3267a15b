"""Properties of the deployment controller's decisions for every view."""

import ast
from pathlib import Path

from hypothesis import assume, given
from hypothesis import strategies as st

from controller_manager.api.pods import is_terminal
from controller_manager.api.workloads import desired_replicas
from controller_manager.control.decision import Step
from controller_manager.controllers.apps import deployment as package
from controller_manager.controllers.apps.deployment.actions import (
    ClaimReplicaSets,
)
from controller_manager.controllers.apps.deployment.decide import decide
from controller_manager.controllers.apps.deployment.fenceposts import (
    max_total,
    max_unavailable,
)
from controller_manager.controllers.apps.deployment.progress import is_complete
from controller_manager.controllers.apps.deployment.scaling import lasting_available
from tests.controllers.apps.deployment.model import (
    NOW,
    Cluster,
    claimed_view,
    first_view,
    play,
    sizes_of,
)
from tests.controllers.apps.deployment.strategies import clusters, unhurried

flags = st.booleans()


@unhurried
@given(cluster=clusters(), is_reread=flags)
def test_every_view_leads_to_a_decision_in_few_steps(
    cluster: Cluster, is_reread: bool
) -> None:
    """With any response of the API server; `play` fails after six steps."""
    played = play(cluster, is_reread=is_reread)
    assert [isinstance(each, Step) for each in played.decided] == [
        *(True for _ in played.decided[1:]),
        False,
    ]


@unhurried
@given(cluster=clusters())
def test_the_same_view_at_the_same_time_gives_the_same_decision(
    cluster: Cluster,
) -> None:
    """It keeps no state."""
    view = claimed_view(cluster)
    assert decide(view, NOW) == decide(view, NOW)
    assert view == claimed_view(cluster)


@unhurried
@given(cluster=clusters(), is_reread=flags)
def test_an_incomplete_rollout_has_a_reason(cluster: Cluster, is_reread: bool) -> None:
    """In every step, and in every decision that ends a sync."""
    played = play(cluster, is_reread=is_reread)
    after = played.cluster.deployment
    assert played.decision.reasons or is_complete(after, after.status)
    assert all(step.reasons for step in played.decided[1:-1])


@unhurried
@given(cluster=clusters("created"))
def test_a_decision_that_was_applied_is_not_made_again(cluster: Cluster) -> None:
    """While no pod is added or deleted, the syncs come to an end.

    A sync does one thing: it restores a template, rolls out one step, or reports.
    A step may be of one pod only, and at most 16 pods have to be replaced.
    """
    assume(cluster.deployment.spec.strategy.type != "Odd")
    assume(not cluster.changes_meanwhile)
    for _ in range(40):
        played = play(cluster, is_reread=True)
        if not played.actions and played.cluster == cluster:
            return
        cluster = played.cluster
    msg = f"still at work after forty syncs: {played.actions}"
    raise AssertionError(msg)


@unhurried
@given(cluster=clusters(rolls_out="RollingUpdate"))
def test_a_rolling_update_never_wants_more_pods_than_surge_allows(
    cluster: Cluster,
) -> None:
    """If there are more already, it wants no additional pod."""
    most = max(max_total(cluster.deployment), sizes_of(cluster))
    assert sizes_of(play(cluster).cluster) <= most


@unhurried
@given(cluster=clusters(rolls_out="RollingUpdate"))
def test_a_rolling_update_never_leaves_fewer_available_than_allowed(
    cluster: Cluster,
) -> None:
    """If there are fewer already, it removes no available pod.

    To shrink a new replica set that is too large is not part of the rollout.
    """
    subject, new = cluster.deployment, claimed_view(cluster).rollout.new
    wanted = desired_replicas(subject)
    assume(new is None or desired_replicas(new) <= wanted)
    had = sum(map(lasting_available, cluster.replica_sets))
    left = sum(map(lasting_available, play(cluster).cluster.replica_sets))
    assert left >= min(wanted - max_unavailable(subject), had)


@unhurried
@given(cluster=clusters(rolls_out="Recreate"))
def test_recreate_scales_up_only_when_no_old_pod_remains(
    cluster: Cluster,
) -> None:
    """Neither wanted nor reported nor cached."""
    rollout, after = claimed_view(cluster).rollout, play(cluster).cluster
    new_size = desired_replicas(rollout.new) if rollout.new is not None else 0
    left = sum(desired_replicas(each) for each in rollout.old)
    if sizes_of(after) > new_size + left:
        assert left == sum(each.status.replicas for each in rollout.old) == 0
        assert all(is_terminal(each) for each in cluster.pods)


@unhurried
@given(cluster=clusters())
def test_a_sync_begins_with_claiming_or_does_nothing_but_warn(
    cluster: Cluster,
) -> None:
    """At first the view has only the deployment."""
    decided = decide(first_view(cluster), NOW)
    assert [type(action) for action in decided.actions] == [ClaimReplicaSets]


def test_only_the_applier_waits() -> None:
    """All other modules are pure: no code in them awaits."""
    waiting = {
        path.stem
        for path in Path(package.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.AsyncFunctionDef | ast.Await)
    }
    assert waiting == {"reconciler"}
