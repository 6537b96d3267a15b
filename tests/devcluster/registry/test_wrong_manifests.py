"""Writes that a real API server refuses, and its messages.

``wrong-manifests.yaml`` has mistakes that manifests often have, ``devcluster/refused``
those of each group: a ``change`` of the minimal object of a kind that is created, an
``update`` of the object that was ``given``, or a ``write`` of its status, which was
``status`` before.
"""

from pathlib import Path
from typing import Final

import pytest
import yaml

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Refusal
from tests.clusters import Cluster
from tests.devcluster.registry.requests import causes, create, update

pytestmark = pytest.mark.looptime

DATA: Final = Path(__file__).parents[2] / "data"
FILES: Final = (
    DATA / "wrong-manifests.yaml",
    *sorted((DATA / "devcluster" / "refused").glob("*.yaml")),
)
MISTAKES: Final = [
    mistake
    for file in FILES
    for mistake in yaml.load(file.read_text(), yaml.CSafeLoader)
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: str(each["kind"]))
async def test_a_wrong_write_is_refused(cluster: Cluster, mistake: JSON) -> None:
    kind = mistake["kind"]
    if "change" in mistake:
        with pytest.raises(Refusal) as raised:
            create(cluster, kind, mistake["change"])
    else:
        obj = create(cluster, kind, mistake.get("given"))
        if status := mistake.get("status"):
            obj = update(cluster, obj, {"status": status}, "status")
        subresource = "status" if "write" in mistake else ""
        status_change = {"status": mistake.get("write")}
        with pytest.raises(Refusal) as raised:
            update(cluster, obj, mistake.get("update", status_change), subresource)
    assert causes(raised.value) == mistake["says"]
