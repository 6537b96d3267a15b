"""Publishing, and repairing what was edited (rootcacertpublisher/publisher.go)."""

from dataclasses import replace
from http import HTTPStatus
from typing import Final

import msgspec

from controller_manager.api.core.v1 import CONFIG_MAPS, ConfigMap
from controller_manager.api.meta import ObjectMeta, annotations_of, is_deleting
from controller_manager.client.errors import (
    APIError,
    NotFound,
    is_namespace_terminating,
)
from controller_manager.control.namespaces import ActiveNamespaces
from controller_manager.informers.informer import Handler
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller
from controller_manager.runtime.outcome import DONE, Outcome

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
"""Only these are watched; upstream caches all config maps there are."""


def init_root_ca_certificate_publisher_controller(
    context: ControllerContext,
) -> Controller | None:
    """Wire the controller to its informers (newRootCACertificatePublisher...).

    `None` if nobody has said which authority to publish. Upstream then publishes
    an empty one, over a good one if there is one.
    """
    if not context.root_ca:
        context.logger.warning(
            "There is no authority to publish; give --root-ca-file, or a kubeconfig "
            "with a certificate-authority"
        )
        return None
    controller = RootCAPublisher(context)
    return context.workers(
        controller.queue, controller.sync, 1, controller.namespaces.enqueue_all
    )


class RootCAPublisher:
    """Keeps a config map with the authority in every active namespace."""

    def __init__(self, context: ControllerContext) -> None:
        """Take the context and watch namespaces and these config maps."""
        self.queue = context.queue("root_ca_cert_publisher")
        self._client = context.client
        self._clock = context.clock
        self._metrics = context.metrics.root_ca
        self._data = {_KEY: context.root_ca}
        self.namespaces = ActiveNamespaces(context.informers, self.queue)
        self._maps = context.informers.informer(_MAPS)
        self._maps.add_handler(
            Handler(
                on_update=lambda _, new: self.queue.add(new.metadata.namespace),
                on_delete=lambda gone: self.queue.add(gone.metadata.namespace),
            )
        )

    async def sync(self, key: str) -> Outcome:
        """Create or repair the map in the namespace of that name."""
        started = self._clock.monotonic()
        code = int(HTTPStatus.OK)
        try:
            await self._publish(key)
        except APIError as error:
            code = error.code
            raise
        except Exception:
            code = int(HTTPStatus.INTERNAL_SERVER_ERROR)
            raise
        finally:
            self._metrics.synced(code, self._clock.monotonic() - started)
        return DONE

    async def _publish(self, key: str) -> None:
        if key not in self.namespaces:
            return
        present = self._maps.store.get(f"{key}/{_NAME}")
        try:
            if present is None:
                await self._create(key)
            elif not self._is_right(present) and not is_deleting(present):
                await self._repair(present)
        except APIError as error:
            gone = isinstance(error, NotFound) or is_namespace_terminating(error)
            if not gone:
                raise

    def _is_right(self, present: ConfigMap) -> bool:
        described = annotations_of(present.metadata).get(_ABOUT)
        return present.data == self._data and bool(described)

    async def _create(self, namespace: str) -> None:
        metadata = ObjectMeta(
            name=_NAME, namespace=namespace, annotations={_ABOUT: _DESCRIPTION}
        )
        await self._client.create(
            CONFIG_MAPS, ConfigMap(metadata=metadata, data=self._data)
        )

    async def _repair(self, present: ConfigMap) -> None:
        annotations = {**annotations_of(present.metadata), _ABOUT: _DESCRIPTION}
        metadata = msgspec.structs.replace(present.metadata, annotations=annotations)
        repaired = msgspec.structs.replace(present, metadata=metadata, data=self._data)
        await self._client.update(CONFIG_MAPS, repaired)
