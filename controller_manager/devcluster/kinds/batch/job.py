"""Job: pods that run to completion."""

from datetime import datetime
from typing import Any, ClassVar, Final

from controller_manager.api.times import parse_time
from controller_manager.devcluster.kinds.batch.job_messages import JOB_MESSAGES
from controller_manager.devcluster.kinds.columns import (
    CONTAINERS,
    SELECTOR,
    container_cells,
    name_of,
    selector_text,
)
from controller_manager.devcluster.kinds.pod_spec_defaults import default_template
from controller_manager.devcluster.server.kind import Kind, status_of
from controller_manager.devcluster.server.storage import Storage
from controller_manager.devcluster.server.strategy import Strategy
from controller_manager.devcluster.server.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
    human_duration,
)

JSON = dict[str, Any]


class JobStrategy(Strategy):
    """A job selects its own pods by default."""

    counts_generations: ClassVar = True
    orphans_dependents: ClassVar = True
    columns: ClassVar = (
        NAME,
        Column("Status"),
        Column("Completions"),
        Column("Duration"),
        AGE,
        *CONTAINERS,
        SELECTOR,
    )
    models: ClassVar = (
        "V1PodFailurePolicy",
        "V1SuccessPolicy",
        "V1UncountedTerminatedPods",
    )
    messages: ClassVar = {
        **JOB_MESSAGES,
        "Job": {1: "metadata:ObjectMeta", 2: "spec:JobSpec", 3: "status:JobStatus"},
        "JobStatus": {
            4: "active:int",
            5: "succeeded:int",
            6: "failed:int",
            7: "completedIndexes:str",
        },
    }

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in template, counts and policies."""
        spec = obj.setdefault("spec", {})
        if "completions" not in spec and "parallelism" not in spec:
            spec["completions"] = 1
        spec.setdefault("parallelism", 1)
        spec.setdefault("backoffLimit", 6)
        spec.setdefault("completionMode", "NonIndexed")
        spec.setdefault("suspend", False)
        spec.setdefault("podReplacementPolicy", "TerminatingOrFailed")
        spec.setdefault("manualSelector", False)
        default_template(spec)
        obj.setdefault("status", {})

    def prepare_for_create(self, obj: JSON, storage: Storage) -> None:
        """Make the job select its own pods, unless manualSelector is set."""
        del storage
        if not obj["spec"].get("manualSelector"):
            _label(obj)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        spec, status = obj["spec"], obj.get("status", {})
        wanted = spec.get("completions")
        began, ended = status.get("startTime"), status.get("completionTime")
        until = parse_time(ended) if ended else now
        seconds = (until - parse_time(began)).total_seconds() if began else None
        return [
            name_of(obj),
            _status(obj),
            f"{status.get('succeeded', 0)}/{wanted if wanted is not None else 1}",
            human_duration(seconds) if seconds is not None else "",
            age(obj, now),
            *container_cells(spec["template"]),
            selector_text(spec.get("selector")),
        ]


def _status(obj: JSON) -> str:
    conditions = {
        each["type"]
        for each in obj.get("status", {}).get("conditions", [])
        if each["status"] == "True"
    }
    for condition in ("Complete", "Failed"):
        if condition in conditions:
            return condition
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    return "Suspended" if "Suspended" in conditions else "Running"


def _label(job: JSON) -> None:
    spec, metadata = job["spec"], job["metadata"]
    uid, name = metadata["uid"], metadata["name"]
    template = spec["template"].setdefault("metadata", {})
    template["labels"] = {
        **template.get("labels", {}),
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    metadata.setdefault("labels", dict(template["labels"]))


KIND: Final = Kind(
    "batch",
    "v1",
    "Job",
    "jobs",
    model="V1Job",
    categories=("all",),
    subresources=(status_of("Job"),),
    strategy=JobStrategy(),
)
