"""Requests of several users to a cluster with roles."""

import json
from typing import Any

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.apiserver.security import User
from tests.clusters import Cluster

ROLES = "/apis/rbac.authorization.k8s.io/v1"


def log_in(cluster: Cluster, name: str, *groups: str) -> None:
    """Give a user a token that is its name."""
    cluster.server.tokens.add(
        name, User(name, groups=(*groups, "system:authenticated"))
    )


async def ask(
    cluster: Cluster,
    token: str,
    method: str,
    path: str,
    body: JSON | None = None,
    **headers: str,
) -> tuple[int, JSON]:
    """Send a request; return status and body. Without a token it is anonymous."""
    path, _, query = path.partition("?")
    names = {key.replace("_", "-"): value for key, value in headers.items()}
    if token:
        names["authorization"] = f"Bearer {token}"
    pairs = [each.partition("=") for each in query.split("&") if each]
    request = Request(
        method,
        path,
        query=tuple((name, value) for name, _, value in pairs),
        headers=names,
        body=None if body is None else json.dumps(body).encode(),
    )
    answer = await cluster.server.handle(request)
    assert isinstance(answer, Response)
    return answer.status, json.loads(answer.body or b"{}")


def allow(
    cluster: Cluster, name: str, *rules: JSON, subject: JSON, namespace: str = ""
) -> None:
    """Bind a new role with these rules to a subject, everywhere or in a namespace."""
    place = {"namespace": namespace} if namespace else {}
    kind = "Role" if namespace else "ClusterRole"
    metadata = {"name": name, **place}
    api = "rbac.authorization.k8s.io/v1"
    _store(cluster, api, kind, {"metadata": metadata, "rules": list(rules)})
    binding = {
        "metadata": metadata,
        "roleRef": {"kind": kind, "name": name},
        "subjects": [subject],
    }
    _store(cluster, api, f"{kind}Binding", binding)


def _store(cluster: Cluster, api: str, kind: str, obj: JSON) -> None:
    found = cluster.server.catalogue.of(api, kind)
    assert found is not None
    cluster.server.objects.create(found, obj["metadata"].get("namespace", ""), obj)


def user(name: str) -> JSON:
    return {"kind": "User", "name": name}


def rule(verbs: str, resources: str, group: str = "", **more: Any) -> JSON:
    return {
        "verbs": verbs.split(),
        "apiGroups": [group],
        "resources": resources.split(),
        **more,
    }
