"""A cluster with legacy tokens of several ages."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from controller_manager.api.core.secrets import ACCOUNT_NAME, SECRETS
from controller_manager.api.meta import labels_of
from controller_manager.controllers.identity.legacytokencleaner import (
    TRACKING,
    LegacyTokenCleanerOptions,
)
from controller_manager.options.config import Config
from tests.clusters import Cluster, make_config

NAME: Final = "legacy-serviceaccount-token-cleaner-controller"
DAY: Final = 86_400.0
PERIOD: Final = 2 * DAY
"""The clean-up period of these tests: days of virtual time take seconds."""


def with_period(config: Config, seconds: float = PERIOD) -> Config:
    """Return a config with a clean-up period."""
    options = LegacyTokenCleanerOptions(clean_up_period=seconds)
    controllers = {**config.controllers, LegacyTokenCleanerOptions: options}
    return replace(config, controllers=controllers)


def config(*more: str, **generic: Any) -> Config:
    """Return a config that runs the controller with that period."""
    return with_period(make_config(controllers=(NAME, *more), **generic))


def day(cluster: Cluster, days: float = 0) -> str:
    """Return the day that is so many days after now."""
    return (cluster.clock.now() + timedelta(days=days)).date().isoformat()


def track(cluster: Cluster, since: str) -> None:
    """Let the API server say since when it tracks the use of tokens."""
    kind = cluster.server.catalogue.find("", "v1", "configmaps")
    assert kind is not None
    tracking = {"metadata": {"name": TRACKING}, "data": {"since": since}}
    cluster.server.objects.create(kind, "kube-system", tracking)


def add_token(cluster: Cluster, name: str, **labels: str) -> None:
    """Store a token that an account of the same name lists."""
    cluster.add("ServiceAccount", name, secrets=[{"name": name}])
    add_unlisted(cluster, name, name, **labels)


def add_unlisted(cluster: Cluster, name: str, account: str, **labels: str) -> None:
    """Store a token that no account lists."""
    metadata = {
        "name": name,
        "annotations": {ACCOUNT_NAME: account},
        "labels": {f"kubernetes.io/legacy-token-{k}": v for k, v in labels.items()},
    }
    cluster.add(
        "Secret", name, metadata=metadata, type="kubernetes.io/service-account-token"
    )


async def labels(cluster: Cluster) -> dict[str, Mapping[str, str]]:
    """Return the labels of all secrets, by their names."""
    page = await cluster.client.list_page(SECRETS)
    return {each.metadata.name: labels_of(each) for each in page.items}
