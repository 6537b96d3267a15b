"""The unique names of disks that kubelets mount without a driver."""

import pytest

from controller_manager.api.core.volume_sources import FCSource, ISCSISource
from controller_manager.control.volumes import disk_name


@pytest.mark.parametrize(
    ("iscsi", "fc", "name"),
    [
        (None, None, ""),
        (
            ISCSISource("10.0.0.1:3260", "iqn.2026", 0),
            None,
            "kubernetes.io/iscsi/10.0.0.1:3260:iqn.2026:0",
        ),
        (None, FCSource(("a", "b"), 0), "kubernetes.io/fc/[a b]:0"),
        (None, FCSource(("a",), None, ("w", "x")), "kubernetes.io/fc/[w x]"),
        (None, FCSource((), 1, ("w",)), "kubernetes.io/fc/[w]"),
        (None, FCSource(("a",)), ""),
    ],
)
def test_a_disk_has_the_name_that_kubelets_use(
    iscsi: ISCSISource | None, fc: FCSource | None, name: str
) -> None:
    """A disk of Fibre Channel is named by target and number, or by its own names."""
    assert disk_name(iscsi, fc) == name
