"""Publishes the bundle of authorities (clustertrustbundlepublisher/publisher.go)."""

import hashlib
from collections.abc import Awaitable, Iterable
from contextlib import suppress

from msgspec.structs import replace

from controller_manager.api.certificates.v1beta1 import (
    KUBE_APISERVER_SERVING,
    SERVING_TRUST_BUNDLES,
    ClusterTrustBundle,
    ClusterTrustBundleSpec,
)
from controller_manager.api.meta import ObjectMeta, is_deleting
from controller_manager.client.rest.errors import NotFound
from controller_manager.control.publishing import PublisherMetrics
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Maps


class TrustBundleMetrics(PublisherMetrics):
    """The ``clustertrustbundle_publisher_*`` metrics."""

    subsystem = "clustertrustbundle_publisher"
    total_help = "Number of syncs of the bundle by their outcome's HTTP status"
    duration_help = (
        "Seconds that a sync of the bundle took by its outcome's HTTP status"
    )


def bundle_name(signer: str, authorities: str) -> str:
    """Return the name of the bundle of a signer with these authorities."""
    digest = hashlib.sha256(authorities.encode()).digest()[:12]
    return f"{signer.replace('/', ':')}:{digest.hex()}"


class TrustBundleReconciler(Reconciler[ClusterTrustBundle]):
    """Creates the bundle of the current authorities, then deletes former bundles.

    A former bundle stays until the current bundle exists, so that an authority is
    always published.
    """

    def _former(self, bundle: ClusterTrustBundle) -> Iterable[str]:
        return self.objects.keys() if self._is_right(bundle) else ()

    watches = (
        For(SERVING_TRUST_BUNDLES),
        Maps(SERVING_TRUST_BUNDLES, _former, on=("add", "update")),
    )
    queue_name = "ca_cert_publisher_cluster_trust_bundles"

    def __init__(self, context: ControllerContext) -> None:
        self._authorities = context.root_ca
        self._name = bundle_name(KUBE_APISERVER_SERVING, context.root_ca)
        self._metrics = context.metrics.of(TrustBundleMetrics)
        super().__init__(context)

    def starting(self) -> None:
        """Add the current bundle, which may not exist yet, to the queue."""
        self.queue.add(self._name)

    async def reconcile(self, bundle: ClusterTrustBundle) -> Outcome:
        """Repair the current bundle, or delete a former one."""
        if is_deleting(bundle) or self._is_right(bundle):
            return DONE
        if bundle.metadata.name == self._name:
            spec = replace(bundle.spec, trust_bundle=self._authorities)
            repaired = replace(bundle, spec=spec)
            await self._count(self.client.update(SERVING_TRUST_BUNDLES, repaired))
            return DONE
        current = self.objects.get("", self._name)
        if current is not None and self._is_right(current):
            await self._count(self._delete(bundle))
        return DONE

    async def reconcile_absent(self, key: str) -> Outcome:
        """Create the current bundle."""
        if key != self._name:
            return DONE
        bundle = ClusterTrustBundle(
            metadata=ObjectMeta(name=self._name),
            spec=ClusterTrustBundleSpec(
                signer_name=KUBE_APISERVER_SERVING, trust_bundle=self._authorities
            ),
        )
        await self._count(self.client.create(SERVING_TRUST_BUNDLES, bundle))
        return DONE

    def _is_right(self, bundle: ClusterTrustBundle) -> bool:
        return (
            bundle.metadata.name == self._name
            and bundle.spec.trust_bundle == self._authorities
        )

    async def _delete(self, bundle: ClusterTrustBundle) -> None:
        with suppress(NotFound):
            await self.client.delete_exactly(SERVING_TRUST_BUNDLES, bundle)

    async def _count(self, write: Awaitable[object]) -> None:
        with self._metrics.observed(self.clock):
            await write
