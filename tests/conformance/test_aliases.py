"""A generated value has the same name in every run."""

from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from tests.conformance.aliases import Aliases


def obj(kind: str, name: str, second: int = 0, **metadata: Any) -> JSON:
    revision = {"revision": metadata.pop("revision")} if "revision" in metadata else {}
    return {
        "kind": kind,
        "metadata": {
            "name": name,
            "uid": f"<{name}>",
            "creationTimestamp": f"2026-01-01T00:00:0{second}Z",
            **metadata,
        },
        **revision,
    }


def revision(name: str, number: int) -> JSON:
    """Return a controller revision whose name ends in its hash."""
    digest = name.rpartition("-")[2]
    labels = {"controller.kubernetes.io/hash": digest}
    return obj("ControllerRevision", name, labels=labels, revision=number)


def test_hashes_are_numbered_by_age_then_by_revision() -> None:
    aliases = Aliases()
    aliases.learn([revision("web-7b", 2), revision("web-6c", 1)])
    labels = {"pod-template-hash": "5d"}
    aliases.learn([obj("ReplicaSet", "web-5d", labels=labels), revision("web-6c", 3)])
    assert aliases.apply("web-6c web-7b x7b 5d") == "web-HASH1 web-HASH2 x7b HASH3"


@pytest.mark.parametrize(
    ("learned", "name"),
    [
        (obj("Pod", "a-x7k2p", generateName="a-"), "a-*"),
        (obj("Pod", "other", generateName="a-"), "other"),
        (obj("Pod", "a-7f-x7k2p", generateName="a-7f-"), "a-HASH1-*"),
        (
            obj(
                "Pod",
                "a-0",
                generateName="a-",
                ownerReferences=[{"kind": "StatefulSet", "name": "a"}],
            ),
            "a-0",
        ),
        (
            obj(
                "Pod",
                "a-0",
                generateName="a-",
                labels={"statefulset.kubernetes.io/pod-name": "a-0"},
            ),
            "a-0",
        ),
    ],
)
def test_a_generated_name_is_its_prefix(learned: JSON, name: str) -> None:
    aliases = Aliases()
    aliases.learn([obj("ReplicaSet", "a-7f", labels={"pod-template-hash": "7f"})])
    aliases.learn([learned])
    given = learned["metadata"]["name"]
    assert aliases.apply(f"Pod {given} ({learned['metadata']['uid']})") == (
        f"Pod {name} (UID:Pod/{name})"
    )


@pytest.mark.parametrize(
    ("text", "alias"),
    [
        ("tick-29454720", "tick-MINUTE"),
        ("port-8080", "port-8080"),
        ("2026-01-01T00:00:00Z", "TIME"),
        ("2026-01-01T00:00:00.123456Z", "TIME"),
        ("2026-01-01 00:00:00 +0000 UTC", "TIME"),
        ("2026-01-01T00:00:00+00:00", "TIME"),
        ("2026-01-01T00:00:00+05:30", "TIME+05:30"),
        ("Thu, 01 Jan 2026 00:00:00 +0000", "TIME"),
        ("-----BEGIN CERTIFICATE-----\\nabc\\n-----END CERTIFICATE-----\\n", "PEM:"),
        ("ds-n1 and ds-n2", "ANY and ANY"),
    ],
)
def test_what_differs_between_runs_is_replaced(text: str, alias: str) -> None:
    found = Aliases([r"ds-n\d"]).apply(text)
    assert found.partition("CERTIFICATE")[0] == alias
