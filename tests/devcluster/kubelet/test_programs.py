"""The program of a container: from annotation, command or role."""

import re
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kubelet.commands import FOREVER
from controller_manager.devcluster.kubelet.programs import (
    AnnotationError,
    Program,
    Role,
    program_of,
)
from tests.devcluster.rows import rows

JOB: JSON = {"ownerReferences": [{"kind": "Job", "name": "j", "controller": True}]}
PLAIN: JSON = {"name": "c", "image": "i"}
SLEEP: JSON = {**PLAIN, "command": ["sleep", "5"]}


def pod(annotations: JSON | None = None, **metadata: Any) -> JSON:
    return {"metadata": {"name": "p", "annotations": annotations, **metadata}}


@pytest.mark.parametrize(
    ("given", "container", "role", "program"),
    [
        (pod(), PLAIN, Role.MAIN, Program(FOREVER)),
        (pod(), PLAIN, Role.SIDECAR, Program(FOREVER)),
        (pod(), PLAIN, Role.INIT, Program(1)),
        (pod(**JOB), PLAIN, Role.MAIN, Program(1)),
        (pod(**JOB), PLAIN, Role.SIDECAR, Program(FOREVER)),
        (pod(**JOB), SLEEP, Role.MAIN, Program(5, makes_files=True)),
        (pod(), {**PLAIN, "args": ["false"]}, Role.MAIN, Program(FOREVER)),
        (
            pod(),
            {**PLAIN, "command": ["sh", "-c"], "args": ["exit 2"]},
            Role.MAIN,
            Program(0, (2,), makes_files=True),
        ),
        (pod({"devcluster/exit-code": "3"}), PLAIN, Role.MAIN, Program(1, (3,))),
        (pod({"devcluster/exit-code": "3"}), SLEEP, Role.MAIN, Program(1, (3,))),
        (pod({"devcluster/exit-code": "3"}), PLAIN, Role.INIT, Program(1)),
        (pod({"devcluster/exit-code.c": "3"}), PLAIN, Role.INIT, Program(1, (3,))),
        (
            pod({"devcluster/exit-code": "1", "devcluster/exit-code.c": "2"}),
            PLAIN,
            Role.MAIN,
            Program(1, (2,)),
        ),
        (
            pod({"devcluster/exit-code": "1, 1,0"}),
            PLAIN,
            Role.MAIN,
            Program(1, (1, 1, 0)),
        ),
        (pod({"devcluster/run-seconds": "2.5"}), PLAIN, Role.MAIN, Program(2.5)),
        (
            pod({"devcluster/run-seconds": "forever"}, **JOB),
            PLAIN,
            Role.MAIN,
            Program(FOREVER),
        ),
    ],
)
def test_an_annotation_goes_before_the_command(
    given: JSON, container: JSON, role: Role, program: Program
) -> None:
    """Without both, only containers that must end will end."""
    assert program_of(given, container, role) == program


@pytest.mark.parametrize(
    ("index", "more", "codes"),
    [
        ("1", {}, (1,)),
        ("2", {}, (0,)),
        ("4", {}, (1,)),
        ("4", {"devcluster/exit-code": "42"}, (42,)),
        ("2", {"devcluster/exit-code": "42"}, (0,)),
        ("", {}, (0,)),
    ],
)
def test_single_indexes_of_a_job_fail(
    index: str, more: JSON, codes: tuple[int, ...]
) -> None:
    annotations = {
        "devcluster/failing-indexes": "1, 3-5",
        "batch.kubernetes.io/job-completion-index": index,
        **more,
    }
    assert program_of(pod(annotations), PLAIN, Role.MAIN) == Program(1, codes)


@rows("annotation", "text", "message")
def test_a_wrong_annotation_is_named(annotation: str, text: str, message: str) -> None:
    expected = f"annotation devcluster/{annotation}: {message}"
    with pytest.raises(AnnotationError, match=f"^{re.escape(expected)}$"):
        program_of(pod({f"devcluster/{annotation}": text}), PLAIN, Role.MAIN)


def test_the_last_exit_code_holds_for_all_further_runs() -> None:
    program = Program(1, (1, 2, 0))
    assert [program.code(restarts) for restarts in range(5)] == [1, 2, 0, 0, 0]
