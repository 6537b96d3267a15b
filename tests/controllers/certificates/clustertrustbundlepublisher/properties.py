"""What the publisher of trust bundles promises."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from controller_manager.api.certificates.v1beta1 import KUBE_APISERVER_SERVING
from controller_manager.options.config import Config
from controller_manager.options.gates import FeatureGates
from tests.simulation.changes import only
from tests.simulation.properties import AllowedWrite, Properties, Write

_PLURAL: Final = "clustertrustbundles"


class TrustBundleProperties(Properties):
    """It writes bundles of its signer; one of them is always there."""

    controller = "kube-apiserver-serving-clustertrustbundle-publisher-controller"
    may_write = (
        AllowedWrite(("create", "delete"), _PLURAL),
        AllowedWrite(("update",), _PLURAL, only(("spec", "trustBundle"))),
    )

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
        if not self.state.stored(_PLURAL):
            yield f"{write}: no bundle is left"


PROPERTIES = TrustBundleProperties
