"""Deliberate bugs of the publisher of trust bundles."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from controller_manager.api.certificates.v1beta1 import (
    SERVING_TRUST_BUNDLES,
    ClusterTrustBundle,
)
from controller_manager.controllers.certificates.clustertrustbundlepublisher.controller import (  # noqa: E501 - a long path
    TrustBundleReconciler,
)
from controller_manager.runtime.outcome import DONE, Outcome
from controller_manager.runtime.watches import For
from tests.simulation.planted import Bug

_SPOILED: Final = "trust-bundle-is-spoiled"
_CHANGED: Final = "authority-of-the-server-changes"


def _has_the_name(publisher: TrustBundleReconciler, bundle: ClusterTrustBundle) -> bool:
    return bundle.metadata.name == publisher._name


async def _create_nothing(_: TrustBundleReconciler, __: str) -> Outcome:
    return DONE


async def _keep(_: TrustBundleReconciler, __: ClusterTrustBundle) -> None:
    """Delete no bundle."""


async def _delete_first(
    publisher: TrustBundleReconciler, bundle: ClusterTrustBundle
) -> Outcome:
    if bundle.metadata.name != publisher._name:
        await publisher._delete(bundle)
    return DONE


BUGS: Final[Mapping[str, Bug]] = {
    "leave an edited bundle": Bug(
        0, TrustBundleReconciler, "_is_right", _has_the_name, _SPOILED
    ),
    "leave a bundle deleted": Bug(
        0, TrustBundleReconciler, "reconcile_absent", _create_nothing, _SPOILED
    ),
    "keep the former authority": Bug(
        0, TrustBundleReconciler, "_delete", _keep, _CHANGED
    ),
    "delete the former authority first": Bug(
        0, TrustBundleReconciler, "reconcile", _delete_first, _CHANGED
    ),
    "delete the bundles of users": Bug(
        0,
        TrustBundleReconciler,
        "watches",
        (
            For(replace(SERVING_TRUST_BUNDLES, field_selector="")),
            *TrustBundleReconciler.watches[1:],
        ),
        _CHANGED,
    ),
}
