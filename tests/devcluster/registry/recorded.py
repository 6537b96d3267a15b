"""The objects that users and upstream's controllers sent in the recordings.

The recordings show names, uids, hashes and times by aliases. Here each alias gets a
value of the form that a server accepts.
"""

import json
import re
import uuid
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from controller_manager.api.json_objects import JSON
from tests.conformance.recordings import DIRECTORY

FAMILIES: Final = ("cronjob", "daemonset", "job", "statefulset")
TIME: Final = "2026-01-01T00:00:00Z"

_MINUTES: Final = "29000000"
"""Minutes since 1970, of which names of a cron job's jobs are made."""


class Recorded:
    """The steps, checkpoints and writes of one recording."""

    def __init__(self, content: JSON) -> None:
        self.name: str = content["name"]
        self.steps: list[JSON] = content["steps"]
        self.writes: list[JSON] = content["writes"]
        self._checkpoints: list[JSON] = content["checkpoints"]

    def created(self, kind: str = "") -> Iterator[JSON]:
        """Yield the objects that users create, all or those of a kind."""
        for step in self.steps:
            if "create" in step and kind in ("", step["create"]["kind"]):
                yield filled(step["create"])

    def sent(self, resource: str, code: int) -> Iterator[JSON]:
        """Yield the objects of a resource whose creation was answered with `code`."""
        for write in self.writes:
            found = (write["verb"], write["resource"], write["code"])
            if found == ("create", resource, code):
                yield body_of(write)

    def untouched(self) -> Iterator[tuple[JSON, JSON]]:
        """Yield each object that a user creates, and how a checkpoint shows it.

        Objects that a user changes before the first checkpoint are left out.
        """
        waiting: dict[tuple[str, str], JSON] = {}
        checkpoints = (each for each in self._checkpoints if "check" in each)
        for step in self.steps:
            (name, value), *_ = step.items()
            match name:
                case "create":
                    obj = filled(value)
                    waiting[obj["kind"], obj["metadata"]["name"]] = obj
                case "patch" | "delete" | "copy":
                    waiting.pop((value["kind"], value.get("name", "")), None)
                case "check":
                    for shown in _entries(next(checkpoints)["state"]):
                        key = (shown.kind, shown.name)
                        if key in waiting:
                            yield waiting.pop(key), shown.entry


class Entry(NamedTuple):
    """An object of a checkpoint."""

    kind: str
    name: str
    entry: JSON


def _entries(state: JSON) -> list[Entry]:
    return [
        Entry(kind, entry["metadata"]["name"], entry)
        for kind, entries in state.items()
        if kind not in ("Event", "Pod")
        for entry in entries
    ]


def recorded() -> list[Recorded]:
    """Return all recordings of the families of workloads."""
    paths = sorted(
        path for family in FAMILIES for path in (DIRECTORY / family).glob("*.json")
    )
    return [Recorded(json.loads(path.read_text())) for path in paths]


def normal_form(obj: JSON) -> JSON:
    """Return an object without its status, in the form of the checkpoints."""
    metadata = obj["metadata"]
    uid = f"UID:{obj['kind']}/{metadata['name']}"
    reduced: JSON = json.loads(json.dumps(obj).replace(metadata["uid"], uid))
    template = reduced.get("spec", {}).get("template", {})
    if "containers" in template.get("spec", {}):
        reduced["spec"]["template"] = {
            "labels": template["metadata"].get("labels"),
            "annotations": template["metadata"].get("annotations"),
            "images": [each["image"] for each in template["spec"]["containers"]],
        }
    return compared(reduced)


def compared(entry: JSON) -> JSON:
    """Return the parts of an entry that the server alone decides."""
    metadata = entry["metadata"]
    aside = ("apiVersion", "kind", "metadata", "status")
    rest = {name: value for name, value in entry.items() if name not in aside}
    kept = {name: metadata.get(name) for name in ("annotations", "labels", "name")}
    return {"metadata": kept, **{name: each for name, each in rest.items() if each}}


def filled(step: JSON) -> JSON:
    """Return a step's value with a uid, a time or minutes in each placeholder."""
    text = json.dumps(step)
    text = re.sub(r"\{uid:([^}]+)\}", lambda match: _uid(match[1]), text)
    text = re.sub(r"\{now:-?\d+\}", TIME, text)
    text = re.sub(r"\{minutes:\d+\}", _MINUTES, text)
    value: JSON = json.loads(text)
    return value


def body_of(write: JSON) -> JSON:
    """Return the object that a write sent, as a server takes it."""
    body: JSON = denormalised(write["body"])
    metadata = body.setdefault("metadata", {})
    for owner in metadata.get("ownerReferences", []):
        owner["uid"] = _uid(f"{owner['kind']}/{owner['name']}")
    template = body.get("spec", {}).get("template", {})
    if "images" in template:
        body["spec"]["template"] = _template(template)
    return body


def status_of(write: JSON) -> JSON:
    status: JSON = denormalised(write["status"])
    if "observedGeneration" in status:
        status["observedGeneration"] = 1
    uncounted = status.get("uncountedTerminatedPods", {})
    for name, uids in uncounted.items():  # several pods may have one alias
        uncounted[name] = [f"{name}-{number}" for number in range(len(uids))]
    return status


def denormalised(value: Any) -> Any:
    """Return a value in which each alias has become a value that it may stand for."""
    text = json.dumps(value)
    text = re.sub(r"UID:([A-Za-z]+/[A-Za-z0-9.*-]+)", lambda each: _uid(each[1]), text)
    text = re.sub(r"HASH(\d+)", r"hash\1", text).replace("MINUTE", _MINUTES)
    text = re.sub(r"TIME(Z|[+-]\d\d:\d\d)?", TIME, text)
    return json.loads(text.replace("*", "x"))


def _template(reduced: JSON) -> JSON:
    metadata = {
        name: reduced[name] for name in ("labels", "annotations") if reduced[name]
    }
    containers = [
        {"name": f"c{number}", "image": image}
        for number, image in enumerate(reduced["images"])
    ]
    spec = {"containers": containers, "restartPolicy": "Never"}
    return {"metadata": metadata, "spec": spec}


def _uid(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, name))
