"""The operator for widgets, written with kopf: ``kopf run with_kopf.py``.

Handlers for what users do to widgets, and for what anybody does to config maps. Two
indexes, so that nothing is read from the API server.
"""

from collections.abc import Mapping
from typing import Any

import kopf
from kubernetes_asyncio import client, config

KIND = ("example.com", "v1", "widgets")
LABEL = "example.com/widget"
CONFLICT = 409


@kopf.on.startup()
async def connect(memo: kopf.Memo, **_: Any) -> None:
    """Open the connections that all handlers share."""
    memo.connection = await config.new_client_from_config()
    memo.core = client.CoreV1Api(memo.connection)


@kopf.on.cleanup()
async def disconnect(memo: kopf.Memo, **_: Any) -> None:
    """Close the connections."""
    await memo.connection.close()


@kopf.on.login()
def login(**arguments: Any) -> kopf.ConnectionInfo | None:
    """Log in with the kubeconfig that KUBECONFIG names."""
    return kopf.login_with_kubeconfig(**arguments)


@kopf.index(*KIND)
def widgets(namespace: Any, name: Any, body: kopf.Body, **_: Any) -> Any:
    """Index the widgets by name."""
    return {(namespace, name): body}


@kopf.index("", "v1", "configmaps", labels={LABEL: kopf.PRESENT})
def config_maps(namespace: Any, name: Any, body: kopf.Body, **_: Any) -> Any:
    """Index the data of the config maps by name."""
    return {(namespace, name): dict(body.get("data", {}))}


def wanted(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return the data of the config map of a widget."""
    return {"color": spec["color"], "replicas": str(spec["replicas"])}


@kopf.on.create(*KIND)
@kopf.on.update(*KIND)
@kopf.on.resume(*KIND)
async def keep(
    body: kopf.Body,
    meta: kopf.Meta,
    status: kopf.Status,
    patch: kopf.Patch,
    memo: kopf.Memo,
    **indexes: Any,
) -> None:
    """Create or change the config map of a widget, and note it in its status."""
    found = [*indexes["config_maps"].get((meta.namespace, meta.name), ())]
    await put_right(memo.core, body, found[0] if found else None)
    if status.get("observedGeneration") != meta["generation"]:
        patch.status["observedGeneration"] = meta["generation"]


@kopf.on.event("", "v1", "configmaps", labels={LABEL: kopf.PRESENT})
async def mend(
    type: str | None,  # noqa: A002 - kopf's name
    namespace: Any,
    name: Any,
    body: kopf.Body,
    memo: kopf.Memo,
    **indexes: Any,
) -> None:
    """Put a config map back, or right, that somebody has deleted or changed."""
    data = None if type == "DELETED" else dict(body.get("data", {}))
    for widget in indexes["widgets"].get((namespace, name), ()):
        await put_right(memo.core, widget, data)


async def put_right(core: Any, widget: kopf.Body, data: dict[str, str] | None) -> None:
    """Make the config map of a widget have its data; `data` is the present one."""
    desired = wanted(widget.spec)
    if data == desired or "deletionTimestamp" in widget.metadata:
        return
    name, namespace = widget.metadata.name, widget.metadata.namespace
    config_map = {"metadata": {"name": name, "labels": {LABEL: name}}, "data": desired}
    kopf.append_owner_reference(config_map, widget)
    try:
        if data is None:
            await core.create_namespaced_config_map(namespace, config_map)
            return
    except client.ApiException as error:
        if error.status != CONFLICT:  # it exists already
            raise
    await core.patch_namespaced_config_map(name, namespace, {"data": desired})
