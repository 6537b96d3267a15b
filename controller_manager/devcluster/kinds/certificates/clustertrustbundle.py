"""ClusterTrustBundle: authorities that all workloads of a cluster can use."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.control.certificates.pem import blocks
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.scheme.statuses import Cause, invalid, shown
from controller_manager.devcluster.server.rest.strategy import Strategy, fields_by_path
from controller_manager.devcluster.server.rest.tables import NAME, Cells, Column


class ClusterTrustBundleStrategy(Strategy):
    """The name of a bundle begins with that of its signer."""

    columns: ClassVar = (NAME, Column("SignerName"))
    selectable_fields: ClassVar[Mapping[str, tuple[str, ...]]] = fields_by_path(
        "spec.signerName"
    )

    def validate_name(self, name: str) -> list[Cause]:
        """Accept each name; `validate` compares the name with the signer."""
        del name
        return []

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check the name and the authorities."""
        spec, name = obj["spec"], obj["metadata"].get("name", "")
        signer = spec.get("signerName", "")
        prefix = f"{signer.replace('/', ':')}:" if signer else ""
        causes = []
        if not name.startswith(prefix) or (not signer and ":" in name):
            why = (
                "ClusterTrustBundle for signerName "
                f"{signer} must be named with prefix {prefix}"
                if signer
                else "ClusterTrustBundle without signer name must not have "
                '":" in its name'
            )
            causes.append(invalid("metadata.name", shown(name), why))
        found = list(blocks(spec.get("trustBundle", "").encode()))
        if not found or any(each.type != "CERTIFICATE" for each in found):
            why = "must contain at least one trust anchor, and nothing else"
            causes.append(invalid("spec.trustBundle", shown("<value omitted>"), why))
        return causes

    def validate_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check that the signer does not change."""
        field = "signerName"
        before, after = (each["spec"].get(field, "") for each in (old, new))
        if before == after:
            return ()
        return (invalid("spec.signerName", shown(after), "field is immutable"),)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        del now
        return [name_of(obj), obj["spec"].get("signerName", "<none>")]


KIND: Final = kind_of(
    "certificates.k8s.io/v1beta1", "clustertrustbundles", ClusterTrustBundleStrategy()
)
