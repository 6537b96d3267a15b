"""The official client: its dynamic client, and a typed one for nodes."""

import contextlib
import json
from collections.abc import Callable
from typing import Any

import kubernetes
from kubernetes.dynamic.exceptions import DynamicApiError

from tests.clients.client import APPLY, CONTENT_TYPES, JSON, NODE, Kind


class WithKubernetes:
    """Does what the scenarios say."""

    def __init__(self, namespace: str) -> None:
        configuration = kubernetes.client.Configuration()
        kubernetes.config.load_kube_config(  # type: ignore[no-untyped-call]
            client_configuration=configuration
        )
        self.namespace = namespace
        self._api: Any = kubernetes.client.ApiClient(configuration)
        self._dynamic: Any = kubernetes.dynamic.DynamicClient(self._api)  # type: ignore[no-untyped-call]

    def version(self) -> str:
        code: Any = kubernetes.client.VersionApi(self._api).get_code()
        return str(code.git_version)

    def _resource(self, kind: Kind) -> Any:
        return self._dynamic.resources.get(api_version=kind[0], kind=kind[1])

    def _of(self, obj: JSON) -> Any:
        return self._resource(Kind((obj["apiVersion"], obj["kind"])))

    def create(self, obj: JSON) -> JSON:
        made: JSON = self._of(obj).create(obj, **self._where(obj)).to_dict()
        return made

    def _where(self, obj: JSON) -> JSON:
        return {"namespace": obj["metadata"].get("namespace")}

    def get(self, kind: Kind, name: str) -> JSON:
        found = self._resource(kind).get(name=name, namespace=self.namespace)
        body: JSON = found.to_dict()
        return body

    def replace(self, obj: JSON) -> JSON:
        body: JSON = self._of(obj).replace(obj, **self._where(obj)).to_dict()
        return body

    def patch(
        self, kind: Kind, name: str, how: str, patch: Any, subresource: str = ""
    ) -> JSON:
        resource = self._resource(kind)
        if subresource:
            resource = resource.subresources[subresource]
        more = {"field_manager": "tests", "force": True} if how == APPLY else {}
        found = resource.patch(
            body=patch,
            name=name,
            namespace=self.namespace,
            content_type=CONTENT_TYPES[how],
            **more,
        )
        body: JSON = found.to_dict()
        return body

    def scale(self, kind: Kind, name: str, replicas: int) -> int:
        scale = self._resource(kind).subresources["scale"]
        body = scale.get(name=name, namespace=self.namespace).to_dict()
        body["spec"]["replicas"] = replicas
        done = scale.replace(body=body, name=name, namespace=self.namespace)
        return int(done.spec.replicas)

    def select(self, kind: Kind, labels: str = "", fields: str = "") -> list[JSON]:
        if kind == NODE:  # its models require every field of nodeInfo
            typed: Any = kubernetes.client.CoreV1Api(self._api).list_node()
            return [self._api.sanitize_for_serialization(each) for each in typed.items]
        found = self._resource(kind).get(
            namespace=self.namespace, label_selector=labels, field_selector=fields
        )
        return [each.to_dict() for each in found.items]

    def pages(self, kind: Kind, limit: int) -> list[str]:
        resource, found, token = self._resource(kind), [], ""
        while True:
            page = resource.get(namespace=self.namespace, limit=limit, _continue=token)
            assert len(page.items) <= limit
            found += [each.metadata.name for each in page.items]
            token = page.metadata["continue"]
            if not token:
                return found

    def watch(self, kind: Kind, version: str, count: int) -> list[tuple[str, str]]:
        found = []
        watcher: Any = kubernetes.watch.Watch()  # type: ignore[no-untyped-call]
        events = self._resource(kind).watch(
            namespace=self.namespace,
            resource_version=version,
            timeout=10,
            watcher=watcher,
        )
        with contextlib.closing(events):
            for event in events:
                found.append((event["type"], event["object"].metadata.name))
                if len(found) == count:
                    break
        return found

    def delete(self, kind: Kind, name: str) -> None:
        self._resource(kind).delete(name=name, namespace=self.namespace)

    def delete_all(self, kind: Kind) -> None:
        self._resource(kind).delete(namespace=self.namespace, label_selector="!none")

    def refusal(self, call: Callable[[], Any]) -> tuple[int, str]:
        try:
            call()
        except DynamicApiError as error:
            return error.status, json.loads(error.body or "")["reason"]
        except kubernetes.client.ApiException as error:
            return error.status, error.reason.partition(":")[0]
        return 0, "not refused"

    def close(self) -> None:
        self._api.close()


def connect(namespace: str) -> WithKubernetes:
    """Return the client."""
    return WithKubernetes(namespace)
