"""The command of a container is its own, or that of its image."""

from typing import Any

import pytest

from controller_manager.devcluster.kubelet.commands import FOREVER, Run
from controller_manager.devcluster.kubelet.programs import run_of_container

PAUSED = Run(FOREVER, lines=((0.0, "Paused"),), termination=0, termination_code=2)


@pytest.mark.parametrize(
    ("image", "fields", "run"),
    [
        ("busybox", {}, Run()),
        ("docker.io/library/busybox:1.36", {}, Run()),
        ("localhost:5000/busybox@sha256:0123", {}, Run()),
        ("registry.k8s.io/e2e-test-images/busybox:1.37", {}, Run()),
        ("alpine:3", {}, Run()),
        ("busybox", {"stdin": True}, Run(FOREVER)),
        ("busybox", {"command": ["sh"], "tty": True}, Run(FOREVER)),
        ("jenkins", {"command": ["cat"], "tty": True}, Run(FOREVER)),
        ("busybox", {"args": ["sleep", "3"]}, Run(3)),
        ("busybox", {"command": ["sh", "-c"], "args": ["exit 3"]}, Run(0, 3)),
        ("nginx", {"command": ["/bin/false"]}, Run(code=1)),
        ("nginx", {"args": ["false"]}, None),
        ("nginx", {}, None),
        ("registry.k8s.io/pause:3.10", {}, Run(FOREVER, termination=0)),
        ("pause", {"command": ["true"]}, Run()),
        ("agnhost:2", {}, PAUSED),
        ("agnhost:2", {"args": ["liveness"]}, Run(FOREVER)),
        ("agnhost:2", {"args": ["netexec"]}, None),
    ],
)
def test_a_command_goes_before_that_of_the_image(
    image: str, fields: dict[str, Any], run: Run | None
) -> None:
    assert run_of_container({"name": "c", "image": image, **fields}) == run
