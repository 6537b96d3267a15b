"""Workloads: whatever makes pods, and what counts or scales them."""

from collections.abc import Mapping
from typing import Final

from controller_manager.api.json_objects import JSON

from .row import (
    Change,
    Parts,
    Rng,
    Row,
    always,
    any_of,
    gone,
    named,
    number,
    selecting,
    set_image,
    sets,
    template,
    toggles,
)

_POLICIES: Final = ("Background", "Background", "Foreground", "Orphan")
_READY_AFTER: Final[tuple[JSON, ...]] = ({}, {}, {"minReadySeconds": 3})


# Deployments


def _rolling(rng: Rng) -> JSON:
    bounds = {
        "maxSurge": rng.choice([0, 1, "25%", 3]),
        "maxUnavailable": rng.choice([1, "25%", 2]),
    }
    return {"type": "RollingUpdate", "rollingUpdate": bounds}


def _deployment(name: str, rng: Rng) -> Parts:
    spec = {
        "replicas": rng.randrange(1, 6),
        "strategy": _rolling(rng) if rng.random() < 0.8 else {"type": "Recreate"},
        "revisionHistoryLimit": rng.choice([0, 2, 10]),
        **rng.choice(_READY_AFTER),
        **selecting(name),
    }
    return [("deployments", named(name, spec))]


DEPLOYMENTS: Final = Row(
    "deployments",
    _deployment,
    names=("api", "web"),
    changes={
        "image": Change("deployments", set_image, weight=3),
        "scale": Change("deployments", sets(replicas=number(0, 7)), weight=2),
        "pause": Change("deployments", toggles("paused")),
        "strategy": Change("deployments", sets(strategy=_rolling)),
        "history": Change("deployments", sets(revisionHistoryLimit=number(0, 3))),
    },
    policies=_POLICIES,
    last={"resume": Change("deployments", sets(paused=always(value=False)))},
    weight=2,
)


# Replica sets and replication controllers


def _replica_set(name: str, rng: Rng) -> Parts:
    spec = {"replicas": rng.randrange(1, 5), **selecting(name)}
    return [("replicasets", named(name, spec))]


def _replication_controller(name: str, rng: Rng) -> Parts:
    spec = {"replicas": rng.randrange(1, 5), **selecting(name)}
    spec["selector"] = {"app": name}
    return [("replicationcontrollers", named(name, spec))]


REPLICA_SETS: Final = Row(
    "replicasets",
    _replica_set,
    names=("bare",),
    changes={"scale": Change("replicasets", sets(replicas=number(0, 7)), weight=2)},
    policies=_POLICIES,
)
REPLICATION_CONTROLLERS: Final = Row(
    "replicationcontrollers",
    _replication_controller,
    names=("old",),
    changes={"scale": Change("replicationcontrollers", sets(replicas=number(0, 7)))},
    policies=_POLICIES,
)


# Stateful sets


def _retention(rng: Rng) -> JSON:
    policies = ("Retain", "Delete")
    return {"whenDeleted": rng.choice(policies), "whenScaled": rng.choice(policies)}


def _partition(number: int) -> JSON:
    return {"type": "RollingUpdate", "rollingUpdate": {"partition": number}}


def _stateful_set(name: str, rng: Rng) -> Parts:
    spec = {
        "replicas": rng.randrange(1, 4),
        "serviceName": name,
        "podManagementPolicy": rng.choice(["OrderedReady", "Parallel"]),
        "persistentVolumeClaimRetentionPolicy": _retention(rng),
        "revisionHistoryLimit": rng.choice([0, 2]),
        **rng.choice(_READY_AFTER),
        **selecting(name),
    }
    if name == "db":
        claim = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
        spec["volumeClaimTemplates"] = [named("data", claim)]
    return [("statefulsets", named(name, spec))]


def _repair(obj: JSON, _: Rng) -> None:
    obj["spec"]["updateStrategy"] = _partition(0)
    template_spec = obj["spec"]["template"]["spec"]
    if template_spec["containers"][0]["image"].startswith("broken"):
        template_spec["containers"][0]["image"] = "app:repaired"


def _break(obj: JSON, _: Rng) -> None:
    obj["spec"]["template"]["spec"]["containers"][0]["image"] = "broken:v1"


STATEFUL_SETS: Final = Row(
    "statefulsets",
    _stateful_set,
    names=("db", "queue"),
    changes={
        "image": Change("statefulsets", set_image, weight=2),
        "scale": Change("statefulsets", sets(replicas=number(0, 5)), weight=2),
        "strategy": Change(
            "statefulsets",
            sets(
                updateStrategy=any_of(
                    {"type": "OnDelete"}, _partition(0), _partition(1)
                )
            ),
        ),
        "retention": Change(
            "statefulsets", sets(persistentVolumeClaimRetentionPolicy=_retention)
        ),
        "break": Change("statefulsets", _break),
    },
    policies=("Background", "Foreground"),
    last={"repair": Change("statefulsets", _repair)},
    weight=2,
)


# Daemon sets


def _daemon_strategy(rng: Rng) -> JSON:
    surge = rng.choice([0, 0, 1, "50%"])
    bounds = {"maxSurge": surge, "maxUnavailable": 0 if surge else rng.choice([1, 2])}
    return {"type": "RollingUpdate", "rollingUpdate": bounds}


def _daemon_set(name: str, rng: Rng) -> Parts:
    spec = {
        "updateStrategy": _daemon_strategy(rng),
        "revisionHistoryLimit": rng.choice([0, 2]),
        **rng.choice(_READY_AFTER),
        **selecting(name),
    }
    if name == "logs":
        spec["template"]["spec"]["nodeSelector"] = {"pool": "yes"}
    return [("daemonsets", named(name, spec))]


DAEMON_SETS: Final = Row(
    "daemonsets",
    _daemon_set,
    names=("agent", "logs"),
    changes={
        "image": Change("daemonsets", set_image, weight=3),
        "strategy": Change("daemonsets", sets(updateStrategy=_daemon_strategy)),
        "history": Change("daemonsets", sets(revisionHistoryLimit=number(0, 3))),
    },
    policies=_POLICIES,
    needs=("labels of nodes",),
    weight=2,
)


# Jobs


_MANY: Final = 1000
"""A backoff limit that faults never reach, so that the end does not depend on them."""

_JOBS: Final[Mapping[str, JSON]] = {
    "counted": {"completions": 4, "parallelism": 2},
    "indexed": {"completions": 3, "parallelism": 2, "completionMode": "Indexed"},
    "queue": {"parallelism": 2},
    "replacing": {
        "completions": 2,
        "parallelism": 2,
        "podReplacementPolicy": "Failed",
    },
    "fails": {"completions": 2, "backoffLimit": 1, "exit": "1"},
    "too-long": {"parallelism": 1, "activeDeadlineSeconds": 40, "seconds": "forever"},
    "short-lived": {"completions": 1, "ttlSecondsAfterFinished": 20},
}


def _job(name: str, _: Rng) -> Parts:
    spec = {"backoffLimit": _MANY, **_JOBS[name]}
    annotations = {"devcluster/run-seconds": spec.pop("seconds", "8")}
    if "exit" in spec:
        annotations["devcluster/exit-code"] = spec.pop("exit")
    spec["template"] = {
        **template(name, restartPolicy="Never"),
        "metadata": {"labels": {"app": name}, "annotations": annotations},
    }
    return [("jobs", named(name, spec))]


def _resize(obj: JSON, rng: Rng) -> None:
    parallelism = rng.randrange(1, 4)
    if "completions" in obj["spec"]:
        obj["spec"]["parallelism"] = parallelism


JOBS: Final = Row(
    "jobs",
    _job,
    names=("counted", "indexed", "queue", "replacing"),
    changes={
        "suspend": Change("jobs", toggles("suspend")),
        "resize": Change("jobs", _resize),
    },
    replaced=2,
    policies=_POLICIES,
    last={"resume": Change("jobs", sets(suspend=always(value=False)))},
    weight=2,
)
ENDING_JOBS: Final = Row(
    "jobs that end badly",
    _job,
    names=("fails", "too-long"),
    policies=("Background", "Foreground"),
)
SHORT_LIVED_JOBS: Final = Row(
    "jobs with a time to live", _job, names=("short-lived",), lasts=False
)


# Cron jobs


def _cron_job(name: str, rng: Rng) -> Parts:
    ((_, job),) = _job("counted", rng)
    if name != "allow":  # so that a job still runs when the next one is due
        pod = job["spec"]["template"]["metadata"]
        pod["annotations"] = {"devcluster/run-seconds": "45"}
    spec = {
        "schedule": rng.choice(["* * * * *", "*/2 * * * *"]),
        "concurrencyPolicy": name.capitalize(),
        "successfulJobsHistoryLimit": rng.choice([0, 1, 3]),
        "failedJobsHistoryLimit": rng.choice([0, 1]),
        "jobTemplate": {"spec": job["spec"]},
    }
    return [("cronjobs", named(name, spec))]


CRON_JOBS: Final = Row(
    "cronjobs",
    _cron_job,
    names=("allow", "forbid", "replace"),
    changes={
        "suspend": Change("cronjobs", toggles("suspend")),
        "schedule": Change(
            "cronjobs", sets(schedule=any_of("* * * * *", "0-59/3 * * * *"))
        ),
        "limits": Change("cronjobs", sets(successfulJobsHistoryLimit=number(0, 3))),
    },
    last={"suspend": Change("cronjobs", sets(suspend=always(value=True)))},
)


# Budgets and autoscalers


def _budget(name: str, rng: Rng) -> Parts:
    (deployment,) = _deployment(name, rng)
    budget = {"selector": {"matchLabels": {"app": name}}, **_limit(rng)}
    return [deployment, ("poddisruptionbudgets", named(name, budget))]


def _limit(rng: Rng) -> JSON:
    limits: tuple[JSON, ...] = (
        {"minAvailable": 1},
        {"minAvailable": "50%"},
        {"maxUnavailable": 1},
        {"maxUnavailable": "34%"},
        {"maxUnavailable": 0},
    )
    return dict(rng.choice(limits))


def _set_limit(obj: JSON, rng: Rng) -> None:
    obj["spec"] = {"selector": obj["spec"]["selector"], **_limit(rng)}


BUDGETS: Final = Row(
    "poddisruptionbudgets",
    _budget,
    names=("guarded",),
    changes={
        "limit": Change("poddisruptionbudgets", _set_limit, weight=2),
        "scale": Change("deployments", sets(replicas=number(1, 6)), weight=2),
    },
)


def _autoscaler(name: str, rng: Rng) -> Parts:
    pod = template(name)
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
    deployment = named(name, {"replicas": 2, **selecting(name), "template": pod})
    deployment["metadata"]["annotations"] = {"devcluster/cpu": rng.choice(_LOADS)}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    spec = {
        "scaleTargetRef": target,
        "minReplicas": rng.randrange(1, 3),
        "maxReplicas": rng.randrange(4, 7),
        "metrics": [{"type": "Resource", "resource": cpu}],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 30}},
    }
    parts = [
        ("deployments", deployment),
        ("horizontalpodautoscalers", named(name, spec)),
    ]
    if name == "twins":  # neither may scale what both want to
        parts.append(("horizontalpodautoscalers", named("another", spec)))
    return parts


_LOADS: Final = ("50m", "200m", "500m")


def _load(obj: JSON, rng: Rng) -> None:
    obj["metadata"].setdefault("annotations", {})["devcluster/cpu"] = rng.choice(_LOADS)


def _idle(obj: JSON, _: Rng) -> None:
    obj["metadata"].setdefault("annotations", {})["devcluster/cpu"] = "0"
    obj["spec"]["replicas"] = obj["spec"]["replicas"] or 1


AUTOSCALERS: Final = Row(
    "horizontalpodautoscalers",
    _autoscaler,
    names=("auto", "twins"),
    changes={
        "load": Change("deployments", _load, weight=3),
        "bounds": Change(
            "horizontalpodautoscalers",
            sets(minReplicas=number(1, 4), maxReplicas=number(4, 8)),
        ),
        "scale": Change("deployments", sets(replicas=number(0, 6))),
    },
    last={
        "idle": Change("deployments", _idle),
        "decide": Change("horizontalpodautoscalers", gone, name="another"),
    },
)

ROWS: Final[tuple[Row, ...]] = (
    DEPLOYMENTS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    DAEMON_SETS,
    JOBS,
    ENDING_JOBS,
    SHORT_LIVED_JOBS,
    CRON_JOBS,
    BUDGETS,
    AUTOSCALERS,
)
