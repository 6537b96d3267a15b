"""Properties of the publisher of trust bundles."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from controller_manager.api.certificates.v1beta1 import KUBE_APISERVER_SERVING
from controller_manager.api.json_objects import JSON
from controller_manager.options.config import Config
from controller_manager.options.gates import FeatureGates
from tests.clusters import ROOT_CA
from tests.controllers.certificates.clustertrustbundlepublisher.workload import (
    CURRENT,
    PLURAL,
    BundleUsers,
)
from tests.simulation.changes import only
from tests.simulation.properties import AllowedWrite, Properties, Write

if TYPE_CHECKING:
    from tests.simulation.managers import Manager


class TrustBundleProperties(Properties):
    """It writes bundles of its signer; one of them is always there."""

    controller = "kube-apiserver-serving-clustertrustbundle-publisher-controller"
    may_write = (
        AllowedWrite(("create", "delete"), PLURAL),
        AllowedWrite(("update",), PLURAL, only(("spec", "trustBundle"))),
    )
    workload = BundleUsers

    @classmethod
    def configured(cls, config: Config) -> Config:
        """Enable its gate."""
        overrides = {**config.features.overrides, "ClusterTrustBundle": True}
        return replace(config, features=FeatureGates(overrides))

    def after_write(self, write: Write) -> Iterator[str]:
        """Check that only bundles of its signer are written, and one is left."""
        if write.controller != self.controller:
            return
        for each in (write.before, write.after):
            if each and each["spec"].get("signerName") != KUBE_APISERVER_SERVING:
                yield f"{write}: this is a bundle of another signer"
        if not write.is_late and not self._published():
            yield f"{write}: no bundle of the signer is left"

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """Check that the bundle of the current authority is the only one."""
        del managers
        published = {
            each["metadata"]["name"]: each["spec"]["trustBundle"]
            for each in self._published()
        }
        if published != {CURRENT: ROOT_CA}:
            yield f"these bundles are published: {sorted(published)}"

    def _published(self) -> list[JSON]:
        """Return the bundles of the signer."""
        return [
            each
            for each in self.state.stored(PLURAL)
            if each["spec"].get("signerName") == KUBE_APISERVER_SERVING
        ]


PROPERTIES = TrustBundleProperties
