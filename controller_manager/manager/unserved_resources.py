"""The resources that controllers need and the API server does not serve."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from controller_manager.client.discovery.resources import served_resources
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import (
    APIError,
    ProtocolError,
    TransportError,
)
from controller_manager.options.gates import FeatureGates
from controller_manager.runtime.descriptor import Descriptor


class Unserved(Struct, frozen=True):
    """The resources that the API server lacks.

    `lacking` has them for each controller by its name; `problems` says which group
    versions could not be discovered, and why.
    """

    lacking: Mapping[str, Sequence[str]]
    problems: Mapping[str, str]


async def unserved_resources(
    client: Client, descriptors: Iterable[Descriptor], features: FeatureGates
) -> Unserved:
    """Return the required resources that the API server lacks, by controller.

    Resources of a group version that cannot be discovered count as missing.
    """
    served: dict[str, frozenset[str]] = {}
    problems: dict[str, str] = {}
    lacking: dict[str, list[str]] = {}
    for descriptor in descriptors:
        missing = lacking[descriptor.name] = []
        for resource in descriptor.requires_with(features):
            version = resource.api_version
            if version not in served:
                served[version] = frozenset()
                try:
                    found = await served_resources(client, version)
                    served[version] = found or frozenset()
                except (APIError, TransportError, ProtocolError) as error:
                    problems[version] = str(error)
            if resource.plural not in served[version]:
                missing.append(f"{version}/{resource.plural}")
    return Unserved(lacking, problems)
