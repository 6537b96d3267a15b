"""The troubles that explanations are about: each is brought about on a cluster."""

from typing import Any

from msgspec import Struct


class Patch(Struct, frozen=True):
    """A merge patch of the object of a path; a ``*`` stands for the first name."""

    path: str
    body: Any


class Delete(Struct, frozen=True):
    path: str
    options: Any = None


class Applied(Struct, frozen=True):
    manifests: str
    manager: str


Step = str | float | Patch | Delete | Applied
"""Manifests are applied, and a number is the seconds that pass."""


class Scenario(Struct, frozen=True):
    """A trouble: the object to explain, and the steps that bring it about."""

    target: str
    steps: list[Step]
    without: str = ""


def deployment(
    name: str = "web",
    image: str = "nginx:1.27",
    *,
    pod: str = "",
    spec: str = "",
    note: str = "",
    cpu: str = "",
    replicas: int = 2,
) -> str:
    """Return a manifest: fields of pod and spec, an annotation, the CPU it requests."""
    requests = f", resources: {{requests: {{cpu: {cpu}}}}}" if cpu else ""
    return f"""
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  {spec}
  template:
    metadata: {{labels: {{app: {name}}}, annotations: {{{note}}}}}
    spec:
      containers: [{{name: app, image: '{image}'{requests}}}]
      {pod}
"""


def pod(
    name: str = "web", spec: str = "", metadata: str = "", container: str = ""
) -> str:
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}, {metadata}}}
spec: {{containers: [{{name: app, image: web, {container}}}], {spec}}}
"""


def quota(pods: int) -> str:
    return f"""
apiVersion: v1
kind: ResourceQuota
metadata: {{name: small}}
spec: {{hard: {{pods: '{pods}'}}}}
"""


def claim(storage_class: str) -> str:
    return f"""
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: data}}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: {storage_class}
  resources: {{requests: {{storage: 1Gi}}}}
"""


def service(selector: str, port: str = "80") -> str:
    return f"""
apiVersion: v1
kind: Service
metadata: {{name: web}}
spec: {{selector: {{{selector}}}, ports: [{{port: 80, targetPort: {port}}}]}}
"""


def stateful_set(note: str = "", strategy: str = "RollingUpdate", tag: int = 17) -> str:
    return f"""
apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: db}}
spec:
  replicas: 3
  serviceName: db
  selector: {{matchLabels: {{app: db}}}}
  updateStrategy: {{type: {strategy}}}
  template:
    metadata: {{labels: {{app: db}}, annotations: {{{note}}}}}
    spec: {{containers: [{{name: app, image: 'postgres:{tag}'}}]}}
"""


def job(spec: str = "backoffLimit: 3") -> str:
    return f"""
apiVersion: batch/v1
kind: Job
metadata: {{name: batch}}
spec:
  {spec}
  template:
    metadata: {{annotations: {{devcluster/exit-code: '42'}}}}
    spec: {{restartPolicy: Never, containers: [{{name: app, image: batch}}]}}
"""


def cron_job(spec: str = "", concurrency: str = "Forbid", run: str = "") -> str:
    return f"""
apiVersion: batch/v1
kind: CronJob
metadata: {{name: report}}
spec:
  schedule: '* * * * *'
  concurrencyPolicy: {concurrency}
  {spec}
  jobTemplate:
    spec:
      {run}
      template:
        metadata: {{annotations: {{{"devcluster/exit-code: '42'" if run else ""}}}}}
        spec:
          restartPolicy: Never
          containers: [{{name: app, image: busybox, command: [sleep, '600']}}]
"""


CPU = "type: Resource, resource: {name: cpu, target: {type: Utilization, "
USED_BY_HALF = f"{CPU}averageUtilization: 50}}}}"
METRIC = "metric: {name: orders}, target: {type: Value, value: '5'}"
ORDERS = f"type: External, external: {{{METRIC}}}"


def autoscaler(bounds: tuple[int, int] = (2, 5), metric: str = USED_BY_HALF) -> str:
    return f"""
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {{name: web}}
spec:
  scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: web}}
  minReplicas: {bounds[0]}
  maxReplicas: {bounds[1]}
  metrics: [{{{metric}}}]
"""


def budget(bound: str) -> str:
    return f"""
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: web}}
spec: {{{bound}, selector: {{matchLabels: {{app: web}}}}}}
"""


DAEMON_SET = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      containers: [{name: app, image: agent, resources: {requests: {cpu: 100m}}}]
"""

CLASS = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: gold}
provisioner: csi.example.com
"""

HELD_MAP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: left, finalizers: [example.com/cleanup]}
"""

POD_NAME = "statefulset.kubernetes.io/pod-name"

FIXED_LABELS = f"""
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: no-new-names}}
spec:
  matchConstraints:
    resourceRules:
      - {{apiGroups: [''], apiVersions: [v1], operations: [UPDATE], resources: [pods]}}
  validations:
    - message: labels are fixed
      expression: >-
        !('{POD_NAME}' in object.metadata.labels)
        || '{POD_NAME}' in oldObject.metadata.labels
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: no-new-names}}
spec: {{policyName: no-new-names, validationActions: [Deny]}}
"""

BROKEN = "example.com/broken:v1"
DATA = "volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]"
SECRET = "volumes: [{name: settings, secret: {secretName: settings}}]"
EXIT_42 = "{action: FailJob, onExitCodes: {operator: In, values: [42]}}"
NO_NEW_PODS = {"spec": {"unschedulable": True}}
CRASHES = deployment(note="devcluster/exit-code: '3'")
NEVER_READY = deployment(note="devcluster/failing-readiness: always")
REQUESTING = deployment(image="web", cpu="100m")
# The pods of both have the label app=web, and use some CPU.
FEW = deployment(cpu="100m", note="devcluster/cpu: 1m")
OTHERS = deployment("batch", cpu="100m", note="devcluster/cpu: 200m")
BATCH = OTHERS.replace("app: batch", "app: web, tier: batch")


def small(capacity: str) -> Any:
    return {"metadata": {"annotations": {"devcluster/capacity": capacity}}}


def taint(effect: str) -> Any:
    taints = [{"key": "dedicated", "value": "gpu", "effect": effect}]
    return {"spec": {"taints": taints}}


def in_turn() -> list[Step]:
    """Return the steps of two managers that set another image each."""
    return [
        step
        for _ in range(5)
        for manager, image in (("argocd", "web:1"), ("image-updater", "web:2"))
        for step in (Applied(deployment(image=image), manager), 3.0)
    ]


NODE_0, NODE_1 = "v1 cluster:nodes/node-0", "v1 cluster:nodes/node-1"

BY_TARGET: dict[str, dict[str, list[Step]]] = {
    "deploy/web": {
        "An image cannot be pulled": [deployment(image=BROKEN), 30],
        "A container crashes": [CRASHES, 40],
        "A container runs out of memory": [
            deployment(note="devcluster/exit-code: OOMKilled"),
            40,
        ],
        "A probe fails": [NEVER_READY, 90],
        "A liveness probe ends the container": [
            deployment(note="devcluster/failing-liveness: '5-'"),
            200,
        ],
        "A pod fits no node": [
            deployment(image="web", cpu="'64'"),
            Patch(NODE_0, NO_NEW_PODS),
            30,
        ],
        "A quota is full": [quota(1), 5, deployment(), 30],
        "A quota leaves no room for the surge": [
            *(quota(2), 5, deployment(), 10),
            *(deployment(image="nginx:1.28"), 30),
        ],
        "Admission refuses the pods": [
            deployment(pod="serviceAccountName: missing"),
            30,
        ],
        "A claim is pending": [claim("gold"), deployment(pod=DATA), 30],
        "A rollout is paused": [
            *(deployment(), 10, deployment(spec="paused: true", image="new"), 10)
        ],
        "The progress deadline has passed": [
            deployment(spec="progressDeadlineSeconds: 60", image=BROKEN),
            120,
        ],
        "minReadySeconds still runs": [deployment(spec="minReadySeconds: 60"), 30],
        "A deployment is scaled to zero": [deployment(replicas=0), 10],
        "Two managers set the replicas": [REQUESTING, autoscaler(), 40],
        "A manager undoes the work of an autoscaler": [
            *(REQUESTING, autoscaler((3, 5)), 40, REQUESTING)
        ],
        "Two managers change a spec in turn": [*in_turn(), 10],
        "Two selectors overlap": [
            deployment(),
            deployment("second").replace("app: second", "app: web"),
            *(10, pod("left", metadata="labels: {app: web}"), 10),
        ],
        "A finalizer of a dependent blocks its owner": [
            *(deployment(spec="revisionHistoryLimit: 0"), 10),
            Patch(
                "apps/v1 replicasets/*",
                {"metadata": {"finalizers": ["example.com/audit"]}},
            ),
            Delete("apps/v1 deployments/web", {"propagationPolicy": "Foreground"}),
            90,
        ],
        "A taint evicts the pods of a fixed node": [
            *(Patch(NODE_1, taint("NoExecute")), deployment(pod="nodeName: node-1"), 40)
        ],
    },
    "svc/web": {
        "The selector of a service matches nothing": [
            *(service("app: webb"), service("app: web, tier: front"), deployment(), 10)
        ],
        "No pod has the port of a service": [
            *(service("app: web", "http"), deployment(), 10)
        ],
        "The pods of a service are not ready": [service("app: web"), NEVER_READY, 90],
        "A service has no selector": [service(""), 10],
    },
    "pvc/data": {
        "The storage class does not exist": [claim("gold"), 10],
        "A claim waits for its first consumer": [claim("standard"), 10],
        "No provisioner runs": [CLASS, claim("gold"), 60],
        "No volume fits a claim": [claim('""'), 60],
    },
    "ns/shop": {
        "A namespace is stuck in deletion": [
            Applied(HELD_MAP, "example-operator"),
            *(Delete("v1 cluster:namespaces/shop"), 60),
        ]
    },
    "pod/held": {
        "A pod is stuck in deletion": [
            pod(
                "held",
                "terminationGracePeriodSeconds: 1",
                "finalizers: [example.com/cleanup]",
            ),
            *(5, Delete("v1 pods/held"), 60),
        ]
    },
    "pod/web": {
        "A node does not report": [
            *(pod(spec="nodeName: node-1"), 5),
            Patch(
                NODE_1, {"metadata": {"annotations": {"devcluster/stopped": "true"}}}
            ),
            90,
        ],
        "A config map is missing": [
            pod(container="envFrom: [{configMapRef: {name: settings}}]"),
            20,
        ],
        "A volume cannot be mounted": [pod(spec=SECRET), 60],
        "A scheduling gate holds a pod": [
            pod(spec="schedulingGates: [{name: example.com/quota}]"),
            20,
        ],
    },
    "sts/db": {
        "A stateful set waits for an ordinal": [
            stateful_set("devcluster/exit-code: '1'"),
            60,
        ],
        "The name of a stateful set's pod is taken": [
            *(pod("db-1", metadata="labels: {app: other}"), stateful_set(), 30)
        ],
        "A stateful set waits for deletions by hand": [
            *(stateful_set(strategy="OnDelete"), 20),
            *(stateful_set(strategy="OnDelete", tag=18), 20),
        ],
        "A stateful set cannot update its pods": [
            *(stateful_set(), 30, FIXED_LABELS, 5),
            Patch("v1 pods/db-0", {"metadata": {"labels": {POD_NAME: None}}}),
            30,
        ],
    },
    "ds/agent": {
        "A daemon set has no pod on a node": [
            Patch(NODE_0, taint("NoSchedule")),
            *(Patch(NODE_1, small("cpu=50m")), 5, DAEMON_SET, 30),
        ]
    },
    "job/batch": {
        "A job backs off": [job(), 20],
        "A job has failed too often": [job("backoffLimit: 1"), 60],
        "A policy fails a job": [job(f"podFailurePolicy: {{rules: [{EXIT_42}]}}"), 30],
        "A job is suspended": [job("suspend: true"), 10],
    },
    "cj/report": {
        "The next run of a cron job": [cron_job(), 10],
        "A cron job waits for the run before": [cron_job(), 150],
        "A cron job is suspended": [cron_job("suspend: true"), 10],
        "The schedule of a cron job has no run": [
            cron_job(),
            Patch("batch/v1 cronjobs/report", {"spec": {"schedule": "0 0 31 2 *"}}),
            10,
        ],
        "A quota refuses the pods of a cron job": [
            *(quota(0), 5, cron_job(concurrency="Allow"), 130)
        ],
        "The last run of a cron job has failed": [
            *(cron_job(concurrency="Allow", run="backoffLimit: 0"), 100)
        ],
    },
    "hpa/web": {
        "The pods of an autoscaler lack a request": [deployment(), autoscaler(), 60],
        "An autoscaler has no target": [autoscaler(), 30],
        "An autoscaler is disabled": [deployment(replicas=0), autoscaler(), 30],
        "An autoscaler lacks a metric": [deployment(), autoscaler(metric=ORDERS), 60],
        "An autoscaler counts the pods of others": [
            *(FEW, BATCH, autoscaler((2, 50)), 120)
        ],
    },
    "pdb/web": {
        "A budget never allows an eviction": [
            *(deployment(), budget("minAvailable: 2"), 30)
        ],
        "A budget blocks a drain while pods are not ready": [
            *(budget("maxUnavailable: 1"), CRASHES, 40)
        ],
    },
    "node/node-1": {
        "A drain waits for a budget": [
            *(deployment(), budget("minAvailable: 2"), 10),
            *(Patch(NODE_1, NO_NEW_PODS), 30),
        ]
    },
    "quota/small": {
        "A full quota refuses pods": [quota(1), 5, deployment(), 5, job(), 30],
        "A quota is full and refuses nothing": [quota(2), 5, deployment(), 20],
    },
}
"""The steps of each trouble, by the object to explain and the document's heading."""

SCENARIOS = {
    name: Scenario(target, steps)
    for target, troubles in BY_TARGET.items()
    for name, steps in troubles.items()
} | {
    "No controller runs": Scenario(
        "deploy/web", [deployment(), 60], "deployment-controller"
    ),
    "A run missed its deadline": Scenario(
        "cj/report",
        [cron_job("startingDeadlineSeconds: 20"), 100],
        "cronjob-controller",
    ),
}
