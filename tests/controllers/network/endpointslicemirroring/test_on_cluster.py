"""Endpoints are mirrored, in memory and on virtual time."""

from dataclasses import replace
from typing import Any

import pytest

from controller_manager.api.core.services import ENDPOINTS
from controller_manager.api.discovery.v1 import ENDPOINT_SLICES
from controller_manager.controllers.network.endpointslicemirroring import (
    MirroringOptions,
)
from controller_manager.controllers.network.endpointslicemirroring.slices import MANAGER
from controller_manager.options.config import Config
from tests.clusters import make_config
from tests.controllers.network.backends import Services, subset_json
from tests.controllers.scenarios import Scenario, scenarios


def config(*, use_service_account_credentials: bool = False, **options: Any) -> Config:
    made = make_config(
        controllers=("endpointslicemirroring",),
        use_service_account_credentials=use_service_account_credentials,
    )
    return replace(made, controllers={MirroringOptions: MirroringOptions(**options)})


class Mirroring(Services):
    """A cluster with Endpoints that a user writes by hand."""

    def by_hand(self, *ips: str) -> None:
        self.add_service("db", selector=None)
        self.add_endpoints("db", *ips)

    def publish(self, *ips: str, at: str = "") -> None:
        self.edit(ENDPOINTS, "db", at, subsets=[subset_json(*ips)])

    def add_slice(self, name: str) -> None:
        """Add a slice as a former manager has mirrored it."""
        owner = {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "name": "db",
            "uid": self.stored(ENDPOINTS, "db")["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        labels = {
            "kubernetes.io/service-name": "db",
            "endpointslice.kubernetes.io/managed-by": MANAGER,
        }
        self.put(
            ENDPOINT_SLICES,
            name,
            metadata={"labels": labels, "ownerReferences": [owner]},
            addressType="IPv4",
            endpoints=[{"addresses": ["10.0.0.1"], "conditions": {"ready": False}}],
            ports=[{"name": "", "port": 1, "protocol": "TCP"}],
        )

    def mirrored(self) -> list[str]:
        """Return the addresses in all slices."""
        return sorted(ip for each in self.addresses() for ip in each)


@pytest.mark.looptime
@scenarios("network/endpointslicemirroring")
async def test_endpoints_are_mirrored(scenario: Scenario) -> None:
    await scenario.play(Mirroring, config)
