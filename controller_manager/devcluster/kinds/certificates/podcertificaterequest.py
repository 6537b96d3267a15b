"""PodCertificateRequest: a kubelet asks for a certificate of a pod."""

from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
)


class PodCertificateRequestStrategy(Strategy):
    """The spec is immutable; signers write the status."""

    columns: ClassVar = (
        NAME,
        Column("PodName"),
        Column("ServiceAccountName"),
        Column("NodeName"),
        Column("SignerName"),
        AGE,
    )

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the longest life of the certificate."""
        obj.setdefault("spec", {}).setdefault("maxExpirationSeconds", 86400)

    def prepare_for_update(self, old: JSON, new: JSON) -> None:
        """Keep the spec: a request does not change."""
        new["spec"] = old["spec"]

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        fields = ("podName", "serviceAccountName", "nodeName", "signerName")
        spec = obj["spec"]
        return [name_of(obj), *(spec.get(each, "") for each in fields), age(obj, now)]


KIND: Final = kind_of(
    "certificates.k8s.io/v1beta1",
    "podcertificaterequests",
    PodCertificateRequestStrategy(),
)
