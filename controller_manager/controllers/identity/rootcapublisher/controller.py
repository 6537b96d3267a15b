"""Publishes the CA; repairs edited config maps (rootcacertpublisher/publisher.go).

Metrics of the publisher, with upstream's names.
"""

from dataclasses import replace
from http import HTTPStatus
from typing import Final

import msgspec

from controller_manager.api.core.v1 import CONFIG_MAPS, NAMESPACES, ConfigMap, Namespace
from controller_manager.api.meta import ObjectMeta, annotations_of, is_deleting
from controller_manager.client.rest import errors
from controller_manager.control.publishing import (
    PublisherMetrics,
    is_active,
    namespace_of,
)
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Maps


class RootCAMetrics(PublisherMetrics):
    """The ``root_ca_cert_publisher_*`` metrics."""

    subsystem = "root_ca_cert_publisher"
    total_help = "Number of namespace syncs by their outcome's HTTP status"
    duration_help = "Seconds that a namespace sync took by its outcome's HTTP status"


_NAME: Final = "kube-root-ca.crt"
_KEY: Final = "ca.crt"
_ABOUT: Final = "kubernetes.io/description"
_DESCRIPTION: Final = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using "
    "internal endpoints such as the internal service IP or "
    "kubernetes.default.svc. No other usage is guaranteed across distributions of "
    "Kubernetes clusters."
)

_MAPS: Final = replace(CONFIG_MAPS, field_selector=f"metadata.name={_NAME}")
"""The controller watches only these config maps; upstream caches all of them."""


class RootCAReconciler(Reconciler[Namespace]):
    """Keeps a config map with the certificate authority in every active namespace."""

    watches = (
        For(NAMESPACES),
        Maps(_MAPS, namespace_of, on=("update", "delete")),
    )
    queue_name = "root_ca_cert_publisher"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._metrics = context.metrics.of(RootCAMetrics)
        self._data = {_KEY: context.root_ca}

    async def reconcile(self, namespace: Namespace) -> Outcome:
        """Create or repair the config map in the namespace."""
        with self._metrics.observed(self.clock):
            await self._publish(namespace)
        return DONE

    def forget(self, key: str) -> None:  # noqa: ARG002 - any namespace
        """Count the sync of a deleted namespace, as upstream does."""
        self._metrics.synced(int(HTTPStatus.OK), 0.0)

    async def _publish(self, namespace: Namespace) -> None:
        if not is_active(namespace):
            return
        name = namespace.metadata.name
        present = self.lister(_MAPS).get(name, _NAME)
        try:
            if present is None:
                await self._create(name)
            elif not self._is_right(present) and not is_deleting(present):
                await self._repair(present)
        except errors.NotFound:
            return
        except errors.APIError as error:
            if not errors.is_namespace_terminating(error):
                raise

    def _is_right(self, present: ConfigMap) -> bool:
        described = annotations_of(present.metadata).get(_ABOUT)
        return present.data == self._data and bool(described)

    async def _create(self, namespace: str) -> None:
        metadata = ObjectMeta(
            name=_NAME, namespace=namespace, annotations={_ABOUT: _DESCRIPTION}
        )
        new = ConfigMap(metadata=metadata, data=self._data)
        await self.client.create_for_metadata(CONFIG_MAPS, new)

    async def _repair(self, present: ConfigMap) -> None:
        annotations = {**annotations_of(present.metadata), _ABOUT: _DESCRIPTION}
        metadata = msgspec.structs.replace(present.metadata, annotations=annotations)
        repaired = msgspec.structs.replace(present, metadata=metadata, data=self._data)
        await self.client.update_for_metadata(CONFIG_MAPS, repaired)
