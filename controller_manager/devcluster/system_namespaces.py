"""The namespaces that every cluster has (controlplane/controller/systemnamespaces)."""

import asyncio
from typing import Final

from controller_manager.devcluster.server.registry.objects import Objects

from .kinds.core.namespace import KIND as NAMESPACE

NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")

_PERIOD: Final = 60.0


def add_system_namespaces(objects: Objects) -> None:
    """Create the namespaces that do not exist."""
    for name in NAMESPACES:
        if not objects.has(NAMESPACE, "", name):
            objects.create(NAMESPACE, "", {"metadata": {"name": name}})


async def keep_system_namespaces(objects: Objects) -> None:
    """Create deleted namespaces again, within a minute; run until cancelled."""
    while True:
        await asyncio.sleep(_PERIOD)
        add_system_namespaces(objects)
