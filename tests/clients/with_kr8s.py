"""kr8s, as its users write it without coroutines."""

from collections.abc import Callable
from typing import Any

import kr8s
from kr8s.objects import get_class, new_class

from tests.clients.client import (
    APPLY,
    JSON,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Kind,
    NotInThisClientError,
)

_TYPES = {JSON_PATCH: "json", MERGE: None}


class WithKr8s:
    """Does what the scenarios say."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self._api: Any = kr8s.api(namespace=namespace)

    def version(self) -> str:
        return str(self._api.version()["gitVersion"])

    def _class(self, kind: Kind) -> Any:
        """Return the class of a kind; discovery says what its plural is."""
        group, _, version = kind[0].rpartition("/")
        name = f"{kind[1].lower()}.{group}/{version}" if group else f"{kind[1]}/v1"
        _, plural, namespaced = self._api.lookup_kind(name)
        try:
            return get_class(*kind[::-1])
        except KeyError:
            return new_class(
                kind[1], kind[0], namespaced=namespaced, plural=plural, asyncio=False
            )

    def _object(self, kind: Kind, name: str) -> Any:
        metadata = {"name": name, "namespace": self.namespace}
        body = {"apiVersion": kind[0], "kind": kind[1], "metadata": metadata}
        return self._class(kind)(body, api=self._api)

    def create(self, obj: JSON) -> JSON:
        made = self._class(Kind((obj["apiVersion"], obj["kind"])))(obj, api=self._api)
        made.create()
        body: JSON = made.to_dict()
        return body

    def get(self, kind: Kind, name: str) -> JSON:
        found = self._object(kind, name)
        found.refresh()
        body: JSON = found.to_dict()
        return body

    def replace(self, obj: JSON) -> JSON:
        del obj
        raise NotInThisClientError

    def patch(
        self, kind: Kind, name: str, how: str, patch: Any, subresource: str = ""
    ) -> JSON:
        if how in (APPLY, STRATEGIC):
            raise NotInThisClientError
        patched = self._object(kind, name)
        patched.patch(patch, type=_TYPES[how], subresource=subresource or None)
        body: JSON = patched.to_dict()
        return body

    def scale(self, kind: Kind, name: str, replicas: int) -> int:
        patch = {"spec": {"replicas": replicas}}
        return int(self.patch(kind, name, MERGE, patch, "scale")["spec"]["replicas"])

    def select(self, kind: Kind, labels: str = "", fields: str = "") -> list[JSON]:
        found = self._api.get(
            self._class(kind),
            namespace=self.namespace,
            label_selector=labels,
            field_selector=fields,
        )
        return [each.to_dict() for each in found]

    def pages(self, kind: Kind, limit: int) -> list[str]:
        del kind, limit
        raise NotInThisClientError

    def watch(self, kind: Kind, version: str, count: int) -> list[tuple[str, str]]:
        if version == "1":  # it is too old: kr8s would ask for it again and again
            raise NotInThisClientError
        found = []
        events = self._api.watch(
            self._class(kind), namespace=self.namespace, since=version
        )
        for event, obj in events:
            found.append((event, obj.name))
            if len(found) == count:
                break
        return found

    def delete(self, kind: Kind, name: str) -> None:
        self._object(kind, name).delete()

    def delete_all(self, kind: Kind) -> None:
        for each in self._api.get(self._class(kind), namespace=self.namespace):
            each.delete()

    def refusal(self, call: Callable[[], Any]) -> tuple[int, str]:
        try:
            call()
        except kr8s.NotFoundError as error:
            return self._told(error.__cause__)
        except kr8s.ServerError as error:
            return self._told(error)
        return 0, "not refused"

    def _told(self, error: Any) -> tuple[int, str]:
        status = error.response.json()
        return status["code"], status["reason"]

    def close(self) -> None:
        """Leave the connections to the end of the process: kr8s has no way."""


def connect(namespace: str) -> WithKr8s:
    """Return the client."""
    return WithKr8s(namespace)
