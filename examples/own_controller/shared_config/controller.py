"""Copying the config map, and keeping the copies equal to it."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import msgspec

from controller_manager.sdk import (
    DONE,
    WARNING,
    ControllerContext,
    For,
    Maps,
    ObjectMeta,
    Outcome,
    Reconciler,
    core_v1,
    is_deleting,
    labels_of,
)
from shared_config import SharedConfigOptions
from shared_config.metrics import SharedConfigMetrics

NAME: Final = "shared-config"
COPY: Final = "shared-config.example.com/copy"
"""The label of copies. A config map without it is somebody's own."""

_MAPS: Final = replace(core_v1.CONFIG_MAPS, field_selector=f"metadata.name={NAME}")
"""Only config maps of this name are watched and cached."""


class SharedConfigReconciler(Reconciler[core_v1.Namespace]):
    """Keeps a copy of one config map in every active namespace.

    If the config map is gone, its copies stay.
    """

    def __init__(self, context: ControllerContext) -> None:
        """Take the context."""
        super().__init__(context)
        self._source = context.config.of(SharedConfigOptions).source_namespace
        self._metrics = context.metrics.of(SharedConfigMetrics)

    def _namespaces_of(self, changed: core_v1.ConfigMap) -> Iterable[str]:
        """Return whose copies a change concerns: a copy's own, the source's all."""
        namespace = changed.metadata.namespace
        return self.objects.keys() if namespace == self._source else (namespace,)

    watches = (For(core_v1.NAMESPACES), Maps(_MAPS, _namespaces_of))

    async def reconcile(self, namespace: core_v1.Namespace) -> Outcome:
        """Create or repair the copy in the namespace."""
        name, maps = namespace.metadata.name, self.lister(_MAPS)
        source, present = maps.get(self._source, NAME), maps.get(name, NAME)
        if source is None or name == self._source or is_deleting(namespace):
            return DONE
        if present is None:
            await self._create(name, source)
        elif COPY not in labels_of(present):
            self._say_that_the_name_is_taken(namespace)
        elif (present.data, present.binary_data) != (source.data, source.binary_data):
            await self._repair(present, source)
        return DONE

    async def _create(self, namespace: str, source: core_v1.ConfigMap) -> None:
        metadata = ObjectMeta(name=NAME, namespace=namespace, labels={COPY: "true"})
        copy = core_v1.ConfigMap(
            metadata=metadata, data=source.data, binary_data=source.binary_data
        )
        await self.client.create(core_v1.CONFIG_MAPS, copy)
        self._metrics.wrote("create")

    async def _repair(
        self, present: core_v1.ConfigMap, source: core_v1.ConfigMap
    ) -> None:
        # A whole object is written, with its version: labels of others stay, and a
        # change that the cache does not show yet is a conflict, not lost.
        repaired = msgspec.structs.replace(
            present, data=source.data, binary_data=source.binary_data
        )
        await self.client.update(core_v1.CONFIG_MAPS, repaired)
        self._metrics.wrote("update")

    def _say_that_the_name_is_taken(self, namespace: core_v1.Namespace) -> None:
        self.recorder.event(
            core_v1.NAMESPACES,
            namespace,
            WARNING,
            "NameTaken",
            f"The config map {NAME} is no copy and is left alone; rename it, or give "
            f"it the label {COPY}",
        )
