"""The scenarios that every client plays, with their expected results.

A scenario is a function from client to JSON. Its docstring gives its subject, the
decorator its result, which is the same for every client.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from controller_manager.devcluster.apiserver.kind import Kind as ServedKind
from controller_manager.devcluster.registry import find_kinds
from controller_manager.version import KUBERNETES_VERSION
from tests.clients.client import (
    APPLY,
    CONFIG_MAP,
    CONTROLLER,
    DEPLOYMENT,
    JSON_PATCH,
    MERGE,
    NODE,
    STRATEGIC,
    WIDGET,
    Client,
    Kind,
    NotInThisClientError,
)
from tests.devcluster.registry.minimal import minimal

JSON = dict[str, Any]
Play = Callable[[Client], Any]


@dataclass(frozen=True, slots=True)
class Scenario:
    """The steps of a scenario, and the expected result."""

    play: Play
    expected: Any


SCENARIOS: Final[dict[str, Scenario]] = {}

DEFINITION: Final[JSON] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.size",
                        "statusReplicasPath": ".status.size",
                    },
                },
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            part: {
                                "type": "object",
                                "properties": {"size": {"type": "integer"}},
                            }
                            for part in ("spec", "status")
                        },
                    }
                },
            }
        ],
    },
}
"""The custom resource of the scenarios, which the cluster has from the start."""

_FOREIGN: Final = frozenset(
    ("CustomResourceDefinition", "Namespace", "Node", "APIService")
)
"""Kinds whose objects would change the cluster for other tests."""

_MOST_KINDS: Final = 40
"""The number of kinds that each client must know."""


def comes_to(expected: Any) -> Callable[[Play], Play]:
    """Add a scenario that must return this."""

    def add(play: Play) -> Play:
        SCENARIOS[play.__name__] = Scenario(play, expected)
        return play

    return add


def config_map(client: Client, name: str, **parts: Any) -> JSON:
    metadata = {"name": name, "namespace": client.namespace, "labels": {"of": name}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **parts}


def deployment(client: Client, name: str) -> JSON:
    labels = {"app": name}
    containers = [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": client.namespace},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": containers},
            },
        },
    }


def widget(client: Client, name: str) -> JSON:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name, "namespace": client.namespace},
        "spec": {"size": 1, "pruned": True},
    }


def names(objects: list[JSON]) -> list[str]:
    return [each["metadata"]["name"] for each in objects]


def images(obj: JSON) -> list[str]:
    return [each["image"] for each in obj["spec"]["template"]["spec"]["containers"]]


@comes_to(KUBERNETES_VERSION)
def version(client: Client) -> str:
    """Ask the server which one it is."""
    return client.version()


@comes_to(["node-0", "node-1"])
def nodes(client: Client) -> list[str]:
    """List objects without a namespace, in all their fields."""
    return names(client.select(NODE))


@comes_to([{"a": "1"}, {"a": "1"}, [404, "NotFound"]])
def one_object(client: Client) -> list[Any]:
    made = client.create(config_map(client, "one", data={"a": "1"}))
    read = client.get(CONFIG_MAP, "one")
    client.delete(CONFIG_MAP, "one")
    gone = client.refusal(lambda: client.get(CONFIG_MAP, "one"))
    return [made["data"], read["data"], list(gone)]


@comes_to([{"a": "2"}, [409, "Conflict"]])
def replace(client: Client) -> list[Any]:
    """Write a whole object, unless somebody else has written it meanwhile."""
    made = client.create(config_map(client, "replaced", data={"a": "1"}))
    replaced = client.replace({**made, "data": {"a": "2"}})
    return [replaced["data"], list(client.refusal(lambda: client.replace(made)))]


@comes_to([[409, "AlreadyExists"], [422, "Invalid"]])
def refusals(client: Client) -> list[Any]:
    """Get a refusal as an error with the server's code and reason."""
    client.create(config_map(client, "mine"))
    wrong = deployment(client, "wrong")
    wrong["spec"]["replicas"] = -1
    return [
        list(client.refusal(lambda: client.create(config_map(client, "mine")))),
        list(client.refusal(lambda: client.create(wrong))),
    ]


@comes_to(["a:2"])
def merge_patch(client: Client) -> list[str]:
    client.create(deployment(client, "merged"))
    containers = [{"name": "a", "image": "a:2"}]
    patch = {"spec": {"template": {"spec": {"containers": containers}}}}
    return images(client.patch(DEPLOYMENT, "merged", MERGE, patch))


@comes_to(["a:3", "b:1"])
def json_patch(client: Client) -> list[str]:
    client.create(deployment(client, "patched"))
    path = "/spec/template/spec/containers/0/image"
    operation = {"op": "replace", "path": path, "value": "a:3"}
    return images(client.patch(DEPLOYMENT, "patched", JSON_PATCH, [operation]))


@comes_to([["a:1", "b:2"], [415, "UnsupportedMediaType"]])
def strategic_patch(client: Client) -> list[Any]:
    """Change a container by its name; not so of custom resources."""
    client.create(deployment(client, "strategic"))
    client.create(widget(client, "strategic"))
    containers = [{"name": "b", "image": "b:2"}]
    patch = {"spec": {"template": {"spec": {"containers": containers}}}}
    patched = client.patch(DEPLOYMENT, "strategic", STRATEGIC, patch)
    size = {"spec": {"size": 3}}
    refused = client.refusal(lambda: client.patch(WIDGET, "strategic", STRATEGIC, size))
    return [images(patched), list(refused)]


@comes_to([{"a": "1"}, {"a": "2"}])
def apply(client: Client) -> list[Any]:
    first = config_map(client, "applied", data={"a": "1"})
    second = config_map(client, "applied", data={"a": "2"})
    made = client.patch(CONFIG_MAP, "applied", APPLY, first)
    changed = client.patch(CONFIG_MAP, "applied", APPLY, second)
    return [made["data"], changed["data"]]


@comes_to([{"size": 1}, {"size": 5}, {"size": 1}])
def custom_resource(client: Client) -> list[Any]:
    """Find a custom resource by discovery; it is pruned, and has a status."""
    made = client.create(widget(client, "small"))
    patch = {"spec": {"size": 9}, "status": {"size": 5}}
    shown = client.patch(WIDGET, "small", MERGE, patch, "status")
    return [made["spec"], shown["status"], shown["spec"]]


@comes_to([3, 3, 4, 4])
def scales(client: Client) -> list[int]:
    """Scale through the subresource, also a custom resource."""
    client.create(deployment(client, "scaled"))
    client.create(widget(client, "scaled"))
    return [
        client.scale(DEPLOYMENT, "scaled", 3),
        client.get(DEPLOYMENT, "scaled")["spec"]["replicas"],
        client.scale(WIDGET, "scaled", 4),
        client.get(WIDGET, "scaled")["spec"]["size"],
    ]


@comes_to([7, False, 7])
def status(client: Client) -> list[Any]:
    obj = deployment(client, "status")
    obj.update(apiVersion="v1", kind="ReplicationController")
    obj["spec"]["selector"] = {"app": "status"}
    client.create(obj)
    both = {"spec": {"minReadySeconds": 5}, "status": {"replicas": 7}}
    shown = client.patch(CONTROLLER, "status", MERGE, both, "status")
    client.patch(CONTROLLER, "status", MERGE, {"status": {"replicas": 9}})
    kept = client.get(CONTROLLER, "status")
    return [
        shown["status"]["replicas"],
        "minReadySeconds" in shown["spec"],
        kept["status"]["replicas"],
    ]


@comes_to([["s-1"], ["s-2"], ["s-0", "s-2"]])
def selectors(client: Client) -> list[Any]:
    for number in range(3):
        client.create(config_map(client, f"s-{number}"))
    by_set = client.select(CONFIG_MAP, labels="of in (s-0, s-2)")
    return [
        names(client.select(CONFIG_MAP, labels="of=s-1")),
        names(client.select(CONFIG_MAP, fields="metadata.name=s-2")),
        names(by_set),
    ]


@comes_to(["p-0", "p-1", "p-2", "p-3", "p-4"])
def pages(client: Client) -> list[str]:
    client.delete_all(CONFIG_MAP)
    for number in range(5):
        client.create(config_map(client, f"p-{number}"))
    return client.pages(CONFIG_MAP, 2)


@comes_to([["ADDED", "w"], ["MODIFIED", "w"], ["DELETED", "w"]])
def watch(client: Client) -> list[Any]:
    before = client.create(config_map(client, "before-the-watch"))
    client.create(config_map(client, "w"))
    client.patch(CONFIG_MAP, "w", MERGE, {"data": {"a": "1"}})
    client.delete(CONFIG_MAP, "w")
    version = before["metadata"]["resourceVersion"]
    return [list(each) for each in client.watch(CONFIG_MAP, version, 3)]


@comes_to([410, "Expired"])
def expired_watch(client: Client) -> list[Any]:
    """Get a refusal of a version that is no longer in the history."""
    return list(client.refusal(lambda: client.watch(CONFIG_MAP, "1", 1)))


@comes_to([])
def delete_all(client: Client) -> list[str]:
    client.create(config_map(client, "d-0"))
    client.create(config_map(client, "d-1"))
    client.delete_all(CONFIG_MAP)
    return names(client.select(CONFIG_MAP))


@comes_to([])
def every_kind(client: Client) -> list[str]:
    """Create, read, patch, list and delete an object of each kind that is stored.

    Returns what went wrong. A client may not know the newest kinds.
    """
    failures, lived = [], 0
    for kind in find_kinds():
        if not {"create", "patch", "list"} <= set(kind.verbs) or kind.kind in _FOREIGN:
            continue
        try:
            _lives(client, Kind((kind.api_version, kind.kind)), _least(client, kind))
            lived += 1
        except NotInThisClientError:
            continue
        except Exception as error:  # noqa: BLE001 - each kind is tried, and all told
            failures.append(f"{kind.api_version} {kind.kind}: {error!r}")
    return failures if lived >= _MOST_KINDS else [*failures, f"only {lived} kinds"]


def _least(client: Client, kind: ServedKind) -> JSON:
    name = "zzz" if kind.kind == "IPAddress" else f"{client.namespace}-kind"
    obj = minimal(kind, name)
    if kind.namespaced:
        obj["metadata"]["namespace"] = client.namespace
    if kind.kind == "LimitRange":
        obj["spec"] = {"limits": [{"type": "Pod"}]}
    if kind.kind == "PodTemplate":
        obj["template"] = deployment(client, name)["spec"]["template"]
    for about in obj.keys() & {"involvedObject", "regarding"}:  # of an event
        obj[about]["namespace"] = client.namespace
    return obj


def _lives(client: Client, kind: Kind, obj: JSON) -> None:
    """Create an object, read, label, list and delete it."""
    name = client.create(obj)["metadata"]["name"]
    labels = {"metadata": {"labels": {"client": client.namespace}}}
    client.patch(kind, name, MERGE, labels)
    read = client.get(kind, name)
    assert read["metadata"]["labels"]["client"] == client.namespace
    assert names(client.select(kind, labels=f"client={client.namespace}")) == [name]
    client.delete(kind, name)
