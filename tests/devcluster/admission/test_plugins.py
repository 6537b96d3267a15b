"""Plugins are chosen by name; the smaller ones do what upstream's do."""

import pytest

from controller_manager.devcluster.admission import (
    ON_BY_DEFAULT,
    ORDERED,
    PluginError,
    build_chain,
    chosen_plugins,
)
from controller_manager.devcluster.admission.writes import Parts
from controller_manager.options.gates import FeatureGates
from tests.clusters import Cluster
from tests.devcluster.rows import rows


def test_plugins_are_added_to_the_default_and_taken_from_it() -> None:
    chosen = chosen_plugins(
        ["OwnerReferencesPermissionEnforcement,LimitRanger"],
        ["PodSecurity", "Priority"],
    )
    added = {"OwnerReferencesPermissionEnforcement"}
    assert chosen == (ON_BY_DEFAULT | added) - {"PodSecurity", "Priority"}


@rows("enabled", "disabled", "problem")
def test_a_wrong_choice_is_one_line(enabled: str, disabled: str, problem: str) -> None:
    with pytest.raises(PluginError) as raised:
        chosen_plugins([enabled], [disabled])
    assert str(raised.value) == problem


@pytest.mark.looptime
async def test_plugins_see_a_write_in_the_order_of_upstream(cluster: Cluster) -> None:
    server = cluster.server
    parts = Parts(
        server.storage,
        cluster.clock,
        cluster.rng,
        server.authorizer,
        server.catalogue.all,
        FeatureGates(),
    )
    chain = build_chain(sorted(ON_BY_DEFAULT), parts)
    names = [each.name for each in chain.plugins]
    assert names == [name for name in ORDERED if name in names]
    assert {"LimitRanger", "PodSecurity", "ResourceQuota"} <= {*names}


pytestmark = pytest.mark.looptime
