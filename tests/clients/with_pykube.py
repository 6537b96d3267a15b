"""pykube-ng: its classes of objects, made from discovery."""

from collections.abc import Callable
from typing import Any

import pykube
import requests

from tests.clients.client import JSON, MERGE, Kind, NotInThisClientError

_REASONS = {
    "already exists": "AlreadyExists",
    "is invalid": "Invalid",
    "not found": "NotFound",
}


class WithPykube:
    """Does what the scenarios say."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self._api: Any = pykube.HTTPClient(pykube.KubeConfig.from_env())

    def version(self) -> str:
        answer = self._api.get(version="", base="/version")
        return str(answer.json()["gitVersion"])

    def _class(self, kind: Kind) -> Any:
        return pykube.object_factory(self._api, *kind)

    def _object(self, kind: Kind, name: str) -> Any:
        metadata = {"name": name, "namespace": self.namespace}
        return self._class(kind)(self._api, {"metadata": metadata})

    def create(self, obj: JSON) -> JSON:
        kind = Kind((obj["apiVersion"], obj["kind"]))
        made = self._class(kind)(self._api, obj)
        made.create()
        body: JSON = made.obj
        return body

    def get(self, kind: Kind, name: str) -> JSON:
        found = self._object(kind, name)
        found.reload()
        body: JSON = found.obj
        return body

    def replace(self, obj: JSON) -> JSON:
        del obj
        raise NotInThisClientError

    def patch(
        self, kind: Kind, name: str, how: str, patch: Any, subresource: str = ""
    ) -> JSON:
        if how != MERGE:
            raise NotInThisClientError
        patched = self._object(kind, name)
        patched.patch(patch, subresource=subresource or None)
        body: JSON = patched.obj
        return body

    def scale(self, kind: Kind, name: str, replicas: int) -> int:
        patch = {"spec": {"replicas": replicas}}
        return int(self.patch(kind, name, MERGE, patch, "scale")["spec"]["replicas"])

    def _query(self, kind: Kind) -> Any:
        found = self._class(kind)
        is_namespaced = issubclass(found, pykube.objects.NamespacedAPIObject)
        return found.objects(
            self._api, namespace=self.namespace if is_namespaced else pykube.all
        )

    def select(self, kind: Kind, labels: str = "", fields: str = "") -> list[JSON]:
        query = self._query(kind).filter(
            selector=labels or None, field_selector=fields or None
        )
        return [each.obj for each in query]

    def pages(self, kind: Kind, limit: int) -> list[str]:
        del kind, limit
        raise NotInThisClientError

    def watch(self, kind: Kind, version: str, count: int) -> list[tuple[str, str]]:
        found = []
        for event in self._query(kind).watch(since=version):
            if event.type == "ERROR":
                raise pykube.exceptions.HTTPError(
                    event.object.obj["code"], event.object.obj["reason"]
                )
            found.append((event.type, event.object.name))
            if len(found) == count:
                break
        return found

    def delete(self, kind: Kind, name: str) -> None:
        self._object(kind, name).delete()

    def delete_all(self, kind: Kind) -> None:
        for each in self._query(kind):
            each.delete()

    def refusal(self, call: Callable[[], Any]) -> tuple[int, str]:
        try:
            call()
        except pykube.exceptions.HTTPError as error:
            return error.code, _reason(str(error))
        except requests.HTTPError as error:
            answer: Any = error.response
            return answer.status_code, answer.json()["reason"]
        return 0, "not refused"

    def close(self) -> None:
        self._api.session.close()


def _reason(message: str) -> str:
    """Return the reason that a message gives: this library keeps no other."""
    return next(
        (reason for text, reason in _REASONS.items() if text in message), message
    )


def connect(namespace: str) -> WithPykube:
    """Return the client."""
    return WithPykube(namespace)
