"""Properties of the deployment controller's syncs in every situation."""

from hypothesis import assume, given
from hypothesis import strategies as st

from controller_manager.api.apps.v1 import desired_replicas
from controller_manager.api.pods import is_terminal
from controller_manager.controllers.apps.deployment.scaling import (
    lasting_available,
    max_total,
    max_unavailable,
)
from controller_manager.controllers.apps.deployment.status import is_complete
from controller_manager.runtime.outcome import Done
from tests.controllers.apps.deployment.builders import clusters, unhurried
from tests.controllers.apps.deployment.model import Cluster, owned, play, sizes_of

flags = st.booleans()


@unhurried
@given(cluster=clusters(), is_reread=flags)
def test_every_situation_comes_to_an_end(cluster: Cluster, is_reread: bool) -> None:
    """With any response of the API server: an outcome, or the error of a write."""
    played = play(cluster, is_reread=is_reread)
    assert (played.outcome is None) is (played.error is not None)
    assert len(played.writes) <= 3 + len(cluster.replica_sets)


@unhurried
@given(cluster=clusters())
def test_the_same_situation_gives_the_same_writes(cluster: Cluster) -> None:
    """It keeps no state."""
    one, other = play(cluster), play(cluster)
    assert (one.writes, one.events) == (other.writes, other.events)
    assert one.outcome == other.outcome


@unhurried
@given(cluster=clusters())
def test_an_incomplete_rollout_has_a_reason(cluster: Cluster) -> None:
    """In every sync that ends without an error."""
    played = play(cluster, is_reread=True)
    after = played.cluster.deployment
    if isinstance(played.outcome, Done):
        assert played.reasons or is_complete(after, after.status)


@unhurried
@given(cluster=clusters("created"))
def test_a_decision_that_was_applied_is_not_made_again(cluster: Cluster) -> None:
    """While no pod is added or deleted, the syncs come to an end.

    A sync does one thing: it restores a template, rolls out one step, or reports.
    A step may be of one pod only, and at most 16 pods have to be replaced.
    """
    assume(cluster.deployment.spec.strategy.type != "Odd")
    assume(not cluster.changes_meanwhile)
    cluster = owned(cluster)
    for _ in range(40):
        played = play(cluster, is_reread=True)
        if not played.writes:
            return
        cluster = played.cluster
    msg = f"still at work after forty syncs: {played.writes}"
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
    subject, new = cluster.deployment, cluster.rollout.new
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
    rollout, after = cluster.rollout, play(cluster).cluster
    new_size = desired_replicas(rollout.new) if rollout.new is not None else 0
    left = sum(desired_replicas(each) for each in rollout.old)
    if sizes_of(after) > new_size + left:
        assert left == sum(each.status.replicas for each in rollout.old) == 0
        assert not rollout.old or all(map(is_terminal, cluster.pods))
