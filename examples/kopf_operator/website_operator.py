"""An operator for websites, written with kopf: each one gets a deployment."""

from contextlib import suppress
from typing import Any

import kopf
from kubernetes_asyncio import client, config

KIND = ("example.com", "v1", "websites")
LABEL = "example.com/website"


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    """Retry soon what the API server refuses, stop soon, and post no events."""
    settings.networking.error_backoffs = [0.1, 0.2, 0.5, 1, 2, 5]
    settings.queueing.exit_timeout = 0.2
    settings.posting.enabled = False


@kopf.on.login()
def login(**arguments: Any) -> kopf.ConnectionInfo | None:
    """Log in with the kubeconfig that KUBECONFIG names."""
    return kopf.login_with_kubeconfig(**arguments)


def desired(name: str, spec: kopf.Spec) -> Any:
    """Return the deployment of a website."""
    labels = {LABEL: name}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": spec.get("replicas", 1),
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": spec["image"]}]},
            },
        },
    }
    kopf.adopt(deployment)  # so that it is deleted with the website
    return deployment


@kopf.on.create(*KIND, backoff=1)
@kopf.on.update(*KIND, backoff=1)
@kopf.on.resume(*KIND, backoff=1)
async def deploy(name: str, namespace: Any, spec: kopf.Spec, **_: Any) -> None:
    """Create the deployment of a website, or change it."""
    if "image" not in spec:
        message = "spec.image is missing"
        raise kopf.PermanentError(message)
    deployment = desired(name, spec)
    async with await config.new_client_from_config() as connection:
        apps = client.AppsV1Api(connection)
        try:
            await apps.create_namespaced_deployment(namespace, deployment)
        except client.ApiException as error:
            if error.status != 409:  # noqa: PLR2004 - it exists already
                raise kopf.TemporaryError(str(error.reason), delay=0.5) from error
            await apps.patch_namespaced_deployment(name, namespace, deployment)


@kopf.on.field(
    "apps",
    "v1",
    "deployments",
    field="status",
    labels={LABEL: kopf.PRESENT},
    backoff=1,
)
async def report(name: str, namespace: Any, new: Any, **_: Any) -> None:
    """Write into the status of a website how many of its pods are ready."""
    ready = (new or {}).get("readyReplicas", 0)
    async with await config.new_client_from_config() as connection:
        objects = client.CustomObjectsApi(connection)
        group, version, plural = KIND
        with suppress(client.exceptions.NotFoundException):  # it has been deleted
            # The stubs of the client lack the argument _content_type.
            await objects.patch_namespaced_custom_object_status(  # type: ignore[call-arg]
                group,
                version,
                namespace,
                plural,
                name,
                {"status": {"readyReplicas": ready}},
                _content_type="application/merge-patch+json",
            )
