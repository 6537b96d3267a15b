"""Deleted volumes stay while they are bound, in memory and on virtual time."""

import pytest

from controller_manager.api.core.volumes import PERSISTENT_VOLUMES
from controller_manager.options.config import Config
from tests.clusters import make_config
from tests.controllers.scenarios import Scenario, scenarios
from tests.controllers.storage.objects import Storage


def config() -> Config:
    return make_config(
        controllers=("pv-protection",), use_service_account_credentials=True
    )


class Volumes(Storage):
    def volume_in(self, phase: str, *finalizers: str, name: str = "disk") -> None:
        self.volume(name, {"phase": phase})
        self.strip(PERSISTENT_VOLUMES, name, *finalizers)

    def volumes(self) -> dict[str, list[str]]:
        return self.finalizers(PERSISTENT_VOLUMES)


@pytest.mark.looptime
@scenarios("storage/volumeprotection")
async def test_volumes_stay_while_they_are_bound(scenario: Scenario) -> None:
    await scenario.play(Volumes, config)
