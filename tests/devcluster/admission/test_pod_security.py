"""Pod Security Standards, by the labels of a namespace."""

import hashlib
import random

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.admission.pod_security import LATEST
from controller_manager.devcluster.admission.pod_security_checks import violations
from tests.devcluster.admission.pod_security_pods import random_pod
from tests.devcluster.admission.requests import (
    container,
)
from tests.devcluster.rows import rows


@rows("spec", "problem")
def test_a_pod_may_not_take_what_baseline_forbids(spec: JSON, problem: str) -> None:
    found = violations("baseline", LATEST, {}, {"containers": [], **spec})
    assert [*map(str, found)] == [problem]


@rows("spec", "problem")
def test_a_pod_must_say_what_restricted_asks_for(spec: JSON, problem: str) -> None:
    found = violations("restricted", LATEST, {}, spec)
    assert ", ".join(map(str, found)) == problem


@rows("level", "minor", "spec", "reasons")
def test_a_level_is_as_it_was_in_its_version(
    level: str, minor: int, spec: JSON, reasons: list[str]
) -> None:
    found = violations(level, minor, {}, {"containers": [], **spec})
    assert [each.reason for each in found] == reasons


@rows("level", "minor", "digest")
def test_random_pods_get_the_recorded_answers(
    level: str, minor: int, digest: str
) -> None:
    """The digests are those of the answers about 300 random pods."""
    rng = random.Random(7)
    pods = [random_pod(rng) for _ in range(300)]
    answers = [
        ", ".join(map(str, violations(level, minor, metadata, spec)))
        for metadata, spec in pods
    ]
    text = "\n".join(answers)
    assert hashlib.sha256(text.encode()).hexdigest()[:12] == digest


def test_annotations_count_where_fields_did_not_exist() -> None:
    metadata = {
        "annotations": {
            "container.apparmor.security.beta.kubernetes.io/c": "unconfined",
            "container.seccomp.security.alpha.kubernetes.io/c": "unconfined",
        }
    }
    spec = {"containers": [container()]}
    found = violations("baseline", 18, metadata, spec)
    assert [*map(str, found)] == [
        (
            "forbidden AppArmor profile (annotation must not set AppArmor profile "
            "type to "
            '"container.apparmor.security.beta.kubernetes.io/c="unconfined"")'
        ),
        (
            "seccompProfile (forbidden annotation "
            'container.seccomp.security.alpha.kubernetes.io/c="unconfined")'
        ),
    ]
