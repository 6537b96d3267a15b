"""Owners adopt nothing after they were deleted, though the cache has them."""

from typing import Any

import pytest

from controller_manager.api.apps.v1 import REPLICASETS
from controller_manager.api.core.v1 import PODS
from controller_manager.api.selectors import compile_selector
from controller_manager.client.rest.client import DeleteOptions, PropagationPolicy
from controller_manager.client.rest.errors import NotFound
from controller_manager.control.controller_ref_manager import AdoptionRefused, Claimer
from tests.clusters import Cluster
from tests.controllers.builders import replica_set_json, template
from tests.controllers.user import User

FOREGROUND = DeleteOptions(propagation_policy=PropagationPolicy.FOREGROUND)
BACKGROUND = DeleteOptions(propagation_policy=PropagationPolicy.BACKGROUND)


@pytest.mark.parametrize(
    ("options", "is_replaced", "refusal"),
    [
        (BACKGROUND, False, pytest.raises(NotFound, match='"rs" not found')),
        (BACKGROUND, True, pytest.raises(AdoptionRefused, match="is gone: got uid")),
        (FOREGROUND, False, pytest.raises(AdoptionRefused, match="just been deleted")),
    ],
    ids=["gone", "replaced", "being deleted"],
)
async def test_an_owner_that_is_gone_but_cached_adopts_nothing(
    cluster: Cluster, options: DeleteOptions, is_replaced: bool, refusal: Any
) -> None:
    """The garbage collector would delete the adopted pods."""
    user = User(cluster)
    for name in ("a", "b"):
        metadata = {"name": name, "labels": {"app": "rs"}}
        await user.create(PODS, {**template(), "metadata": metadata})
    await user.create(REPLICASETS, replica_set_json())
    cached = await user.client.get(REPLICASETS, "default", "rs")
    pods = await user.pods()
    await user.client.delete(REPLICASETS, "default", "rs", options)
    if is_replaced:
        await user.create(REPLICASETS, replica_set_json())
    claimer = Claimer(user.client, REPLICASETS, PODS)
    with refusal:
        await claimer.claim(cached, compile_selector(cached.spec.selector), pods)
    assert await user.pods() == pods
