"""Tells the API server which webhooks there are, where, and whom to trust.

That is a ValidatingWebhookConfiguration and a MutatingWebhookConfiguration of the name
of the process, and the part ``conversion`` of its custom resource definitions.
"""

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from controller_manager.api.admissionregistration.v1 import (
    MUTATING_WEBHOOK_CONFIGURATIONS,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
)
from controller_manager.api.apiextensions.v1 import CUSTOM_RESOURCE_DEFINITIONS
from controller_manager.api.core.secrets import SECRETS
from controller_manager.api.json_objects import JSON, object_at, objects_at
from controller_manager.api.meta import BUILT_IN_GROUPS, AnyResource
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import APIError, NotFound
from controller_manager.runtime.admission import (
    AnyWebhook,
    Mutates,
    Validates,
    webhook_service,
)
from controller_manager.runtime.permissions import Permission, allow, within
from controller_manager.runtime.registry import Registry

from .reviews import path_of, path_of_conversion

Target = tuple[AnyResource, JSON]
"""An object of the API server, and the fields of it that this process decides on."""

_KINDS: Final = (
    (VALIDATING_WEBHOOK_CONFIGURATIONS, Validates),
    (MUTATING_WEBHOOK_CONFIGURATIONS, Mutates),
)


@dataclass(frozen=True, slots=True)
class Registration:
    """The webhooks of a build, and where they are served.

    That is the service of the build in `namespace`, or the `url` if there is one.
    """

    build: Registry
    namespace: str
    url: str = ""

    @property
    def _service(self) -> str:
        return webhook_service(self.build.component)

    @property
    def host(self) -> str:
        """The name that API servers expect in the certificate without a `url`."""
        return f"{self._service}.{self.namespace}.svc"

    def targets(self, authorities: bytes = b"") -> list[Target]:
        """Return the objects with these trusted authorities (PEM), if they are known.

        Objects that this process makes come first.
        """
        return [*self.configurations(authorities), *self._definitions(authorities)]

    def configurations(self, authorities: bytes = b"") -> Iterator[Target]:
        """Yield the configurations of admission."""
        for resource, kind in _KINDS:
            webhooks = [
                self._webhook(hook, authorities)
                for each in self.build.descriptors
                for hook in each.webhooks
                if isinstance(hook, kind)
            ]
            if webhooks:
                metadata = {"name": self.build.component}
                yield resource, {"metadata": metadata, "webhooks": webhooks}

    def _definitions(self, authorities: bytes) -> Iterator[Target]:
        for each in self.build.converted:
            client = self._client(path_of_conversion(each), authorities)
            metadata = {"name": each.resource.group_resource}
            spec = {"conversion": each.conversion(client)}
            yield CUSTOM_RESOURCE_DEFINITIONS, {"metadata": metadata, "spec": spec}

    def _client(self, path: str, authorities: bytes) -> JSON:
        config: JSON = {"url": f"{self.url.rstrip('/')}{path}"}
        if not self.url:
            where = {"namespace": self.namespace, "name": self._service}
            config = {"service": {**where, "path": path, "port": 443}}
        if authorities:
            config["caBundle"] = base64.b64encode(authorities).decode()
        return config

    def _webhook(self, webhook: AnyWebhook, authorities: bytes) -> JSON:
        resource, more = webhook.resource, dict(webhook.settings)
        plural, subresource = resource.plural, webhook.subresource
        if resource.group in BUILT_IN_GROUPS and resource.namespaced:
            # Without this process its own pods could not be created either.
            name = "kubernetes.io/metadata.name"
            own = {"key": name, "operator": "NotIn", "values": [self.namespace]}
            more = {"namespaceSelector": {"matchExpressions": [own]}, **more}
        rule = {
            "apiGroups": [resource.group],
            "apiVersions": [resource.version],
            "resources": [f"{plural}/{subresource}" if subresource else plural],
            "operations": list(webhook.on),
        }
        return {
            "name": webhook.name,
            "clientConfig": self._client(path_of(webhook), authorities),
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **more,
        }

    def permissions(self) -> Iterator[Permission]:
        """Yield what the process needs for its certificate and its registration."""
        secret = allow(SECRETS, "get", "update", names=(self._service,))
        # A role cannot name what may be created.
        yield from within(self.namespace, secret, allow(SECRETS, "create"))
        for resource, config in self.targets():
            name = config["metadata"]["name"]
            yield allow(resource, "get", "patch", "update", names=(name,))

    async def read(self, client: Client) -> list[JSON | None]:
        """Return the objects of `targets` as they are, `None` for one that is not."""
        return [await _found(client, *each) for each in self.targets()]

    async def write(
        self, client: Client, found: list[JSON | None], authorities: bytes
    ) -> list[str]:
        """Bring the objects to what they must be; return the problems.

        They are changed only as they were `found`. A definition that is missing is no
        problem: somebody is about to create it.
        """
        problems = []
        for (resource, config), there in zip(
            self.targets(authorities), found, strict=True
        ):
            if there is None and resource is CUSTOM_RESOURCE_DEFINITIONS:
                continue
            try:
                await self._bring(client, resource, config, there)
            except APIError as error:
                name = config["metadata"]["name"]
                problems.append(f"{resource.kind} {name}: {error}")
        return problems

    async def _bring(
        self, client: Client, resource: AnyResource, config: JSON, there: JSON | None
    ) -> None:
        if there is None:
            await client.apply(resource, config, self._service)
        elif self._is_elsewhere(there):
            parts = (key for key in config if key != "metadata")
            changed = {key: _replaced(there.get(key), config[key]) for key in parts}
            await client.update_json(resource, {**there, **changed})
        elif not _has(there, config):
            same = {"resourceVersion": there["metadata"]["resourceVersion"]}
            exact = {**config, "metadata": {**config["metadata"], **same}}
            await client.apply(resource, exact, self._service)

    def _is_elsewhere(self, there: JSON) -> bool:
        """Tell whether an object has a URL instead of a service, or the reverse.

        It may have one of them only, and an apply cannot remove what others own.
        """
        other = "service" if self.url else "url"
        conversion = object_at(object_at(there, "spec"), "conversion")
        hooks = [*objects_at(there, "webhooks"), object_at(conversion, "webhook")]
        return any(other in object_at(each, "clientConfig") for each in hooks)


async def _found(client: Client, resource: AnyResource, config: JSON) -> JSON | None:
    try:
        return await client.get_json(resource, "", config["metadata"]["name"])
    except NotFound:
        return None


def _replaced(there: Any, wanted: Any) -> Any:  # noqa: ANN401 - any JSON
    both = isinstance(there, dict) and isinstance(wanted, dict)
    return {**there, **wanted} if both else wanted


def _has(there: Any, wanted: Any) -> bool:  # noqa: ANN401 - any JSON
    """Tell whether an object has all fields that are wanted."""
    if isinstance(wanted, dict):
        return isinstance(there, dict) and all(
            key in there and _has(there[key], each) for key, each in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(there, list)
            and len(there) == len(wanted)
            and all(map(_has, there, wanted))
        )
    return bool(there == wanted)
