"""The troubles that explanations are about: each is brought about on a cluster."""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from tests.explain.stage import Stage

Play = Callable[[Stage], Awaitable[None]]


class Scenario(Struct, frozen=True):
    """A trouble: the object to explain, and a function that brings it about."""

    target: str
    play: Play
    without: str = ""


SCENARIOS: dict[str, Scenario] = {}


def scenario(name: str, target: str, without: str = "") -> Callable[[Play], Play]:
    """Add a scenario under the heading that it has in the document."""

    def add(play: Play) -> Play:
        assert name not in SCENARIOS
        SCENARIOS[name] = Scenario(target, play, without)
        return play

    return add


def deployment(
    name: str = "web", pod: str = "", spec: str = "", labels: str = ""
) -> str:
    """Return the manifest of a deployment with lines for its spec and its pods."""
    return f"""
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: {name}}}}}
  {spec}
  template:
    metadata:
      labels: {{app: {name}}}
      {labels}
    spec:
      {pod or CONTAINER}
"""


CONTAINER = "containers: [{name: app, image: 'nginx:1.27'}]"


def _with_annotations(text: str) -> str:
    return f"annotations: {{{text}}}"


@scenario("An image cannot be pulled", "deploy/web")
async def _image(stage: Stage) -> None:
    await stage.apply(
        deployment(pod="containers: [{name: app, image: 'example.com/broken:v1'}]")
    )
    await stage.pass_time(30)


@scenario("A container crashes", "deploy/web")
async def _crash(stage: Stage) -> None:
    await stage.apply(deployment(labels=_with_annotations("devcluster/exit-code: '3'")))
    await stage.pass_time(40)


@scenario("A container runs out of memory", "deploy/web")
async def _memory(stage: Stage) -> None:
    await stage.apply(
        deployment(labels=_with_annotations("devcluster/exit-code: OOMKilled"))
    )
    await stage.pass_time(40)


@scenario("A probe fails", "deploy/web")
async def _probe(stage: Stage) -> None:
    await stage.apply(
        deployment(labels=_with_annotations("devcluster/failing-readiness: always"))
    )
    await stage.pass_time(90)


@scenario("A liveness probe ends the container", "deploy/web")
async def _liveness(stage: Stage) -> None:
    await stage.apply(
        deployment(labels=_with_annotations("devcluster/failing-liveness: '5-'"))
    )
    await stage.pass_time(200)


@scenario("A pod fits no node", "deploy/web")
async def _unschedulable(stage: Stage) -> None:
    await stage.apply(
        deployment(
            pod="containers: [{name: app, image: web, "
            "resources: {requests: {cpu: '64'}}}]"
        )
    )
    await stage.patch("v1 cluster:nodes/node-0", {"spec": {"unschedulable": True}})
    await stage.pass_time(30)


QUOTA = """
apiVersion: v1
kind: ResourceQuota
metadata: {name: small}
spec: {hard: {pods: '1'}}
"""


@scenario("A quota is full", "deploy/web")
async def _quota(stage: Stage) -> None:
    await stage.apply(QUOTA)
    await stage.pass_time(5)
    await stage.apply(deployment())
    await stage.pass_time(30)


@scenario("A quota leaves no room for the surge", "deploy/web")
async def _surge(stage: Stage) -> None:
    await stage.apply(QUOTA.replace("'1'", "'2'"))
    await stage.pass_time(5)
    await stage.apply(deployment())
    await stage.pass_time(10)
    await stage.apply(deployment(pod="containers: [{name: app, image: 'nginx:1.28'}]"))
    await stage.pass_time(30)


@scenario("Admission refuses the pods", "deploy/web")
async def _admission(stage: Stage) -> None:
    await stage.apply(deployment(pod=f"serviceAccountName: missing\n      {CONTAINER}"))
    await stage.pass_time(30)


@scenario("A claim is pending", "deploy/web")
async def _claim_of_pod(stage: Stage) -> None:
    await stage.apply(CLAIM.format(storage_class="gold"))
    await stage.apply(
        deployment(
            pod="volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]\n"
            f"      {CONTAINER}"
        )
    )
    await stage.pass_time(30)


CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: data}}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: {storage_class}
  resources: {{requests: {{storage: 1Gi}}}}
"""


@scenario("A rollout is paused", "deploy/web")
async def _paused(stage: Stage) -> None:
    await stage.apply(deployment())
    await stage.pass_time(10)
    await stage.apply(
        deployment(spec="paused: true", pod="containers: [{name: app, image: new}]")
    )
    await stage.pass_time(10)


@scenario("The progress deadline has passed", "deploy/web")
async def _deadline(stage: Stage) -> None:
    await stage.apply(
        deployment(
            spec="progressDeadlineSeconds: 60",
            pod="containers: [{name: app, image: 'example.com/broken:v1'}]",
        )
    )
    await stage.pass_time(120)


@scenario("minReadySeconds still runs", "deploy/web")
async def _min_ready(stage: Stage) -> None:
    await stage.apply(deployment(spec="minReadySeconds: 60"))
    await stage.pass_time(30)


@scenario("A deployment is scaled to zero", "deploy/web")
async def _zero(stage: Stage) -> None:
    await stage.apply(deployment().replace("replicas: 2", "replicas: 0"))
    await stage.pass_time(10)


@scenario("No controller runs", "deploy/web", without="deployment-controller")
async def _absent(stage: Stage) -> None:
    await stage.apply(deployment())
    await stage.pass_time(60)


SERVICE = """
apiVersion: v1
kind: Service
metadata: {{name: web}}
spec: {{selector: {{app: {app}}}, ports: [{{port: 80, targetPort: {port}}}]}}
"""


@scenario("The selector of a service matches nothing", "svc/web")
async def _selector(stage: Stage) -> None:
    await stage.apply(SERVICE.format(app="webb", port="80"))
    await stage.apply(SERVICE.format(app="web, tier: front", port="80"))
    await stage.apply(deployment())
    await stage.pass_time(10)


@scenario("No pod has the port of a service", "svc/web")
async def _port(stage: Stage) -> None:
    await stage.apply(SERVICE.format(app="web", port="http"))
    await stage.apply(deployment())
    await stage.pass_time(10)


@scenario("The pods of a service are not ready", "svc/web")
async def _service_not_ready(stage: Stage) -> None:
    await stage.apply(SERVICE.format(app="web", port="80"))
    await _probe(stage)


@scenario("A service has no selector", "svc/web")
async def _no_selector(stage: Stage) -> None:
    await stage.apply(SERVICE.format(app="web", port="80").replace("{app: web}", "{}"))
    await stage.pass_time(10)


@scenario("The storage class does not exist", "pvc/data")
async def _no_class(stage: Stage) -> None:
    await stage.apply(CLAIM.format(storage_class="gold"))
    await stage.pass_time(10)


@scenario("A claim waits for its first consumer", "pvc/data")
async def _consumer(stage: Stage) -> None:
    await stage.apply(CLAIM.format(storage_class="standard"))
    await stage.pass_time(10)


@scenario("No provisioner runs", "pvc/data")
async def _provisioner(stage: Stage) -> None:
    await stage.apply(
        """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: gold}
provisioner: csi.example.com
"""
    )
    await stage.apply(CLAIM.format(storage_class="gold"))
    await stage.pass_time(60)


@scenario("No volume fits a claim", "pvc/data")
async def _no_volume(stage: Stage) -> None:
    await stage.apply(CLAIM.format(storage_class='""'))
    await stage.pass_time(60)


@scenario("A namespace is stuck in deletion", "ns/shop")
async def _namespace(stage: Stage) -> None:
    await stage.apply(
        """
apiVersion: v1
kind: ConfigMap
metadata: {name: left, finalizers: [example.com/cleanup]}
""",
        manager="example-operator",
    )
    await stage.delete("v1 cluster:namespaces/shop")
    await stage.pass_time(60)


@scenario("A pod is stuck in deletion", "pod/held")
async def _held(stage: Stage) -> None:
    await stage.apply(
        f"""
apiVersion: v1
kind: Pod
metadata: {{name: held, finalizers: [example.com/cleanup]}}
spec: {{{CONTAINER}, terminationGracePeriodSeconds: 1}}
"""
    )
    await stage.pass_time(5)
    await stage.delete("v1 pods/held")
    await stage.pass_time(60)


STATEFUL_SET = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 3
  serviceName: db
  selector: {matchLabels: {app: db}}
  updateStrategy: {type: RollingUpdate}
  template:
    metadata:
      labels: {app: db}
      annotations: {devcluster/note: none}
    spec:
      containers: [{name: app, image: 'postgres:17'}]
"""


@scenario("A stateful set waits for an ordinal", "sts/db")
async def _ordinal(stage: Stage) -> None:
    await stage.apply(
        STATEFUL_SET.replace("devcluster/note: none", "devcluster/exit-code: '1'")
    )
    await stage.pass_time(60)


@scenario("The name of a stateful set's pod is taken", "sts/db")
async def _foreign(stage: Stage) -> None:
    await stage.apply(
        f"""
apiVersion: v1
kind: Pod
metadata: {{name: db-1, labels: {{app: other}}}}
spec: {{{CONTAINER}}}
"""
    )
    await stage.apply(STATEFUL_SET)
    await stage.pass_time(30)


@scenario("A stateful set waits for deletions by hand", "sts/db")
async def _on_delete(stage: Stage) -> None:
    by_hand = STATEFUL_SET.replace("type: RollingUpdate", "type: OnDelete")
    await stage.apply(by_hand)
    await stage.pass_time(20)
    await stage.apply(by_hand.replace("postgres:17", "postgres:18"))
    await stage.pass_time(20)


DAEMON_SET = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      containers:
        - {name: app, image: agent, resources: {requests: {cpu: 100m}}}
"""


@scenario("A daemon set has no pod on a node", "ds/agent")
async def _daemon_set(stage: Stage) -> None:
    taint = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
    await stage.patch("v1 cluster:nodes/node-0", {"spec": {"taints": [taint]}})
    small = {"metadata": {"annotations": {"devcluster/capacity": "cpu=50m"}}}
    await stage.patch("v1 cluster:nodes/node-1", small)
    await stage.pass_time(5)
    await stage.apply(DAEMON_SET)
    await stage.pass_time(30)


JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: batch}
spec:
  backoffLimit: 3
  template:
    metadata: {annotations: {devcluster/exit-code: '42'}}
    spec:
      restartPolicy: Never
      containers: [{name: app, image: batch}]
"""


@scenario("A job backs off", "job/batch")
async def _backing_off(stage: Stage) -> None:
    await stage.apply(JOB)
    await stage.pass_time(20)


@scenario("A job has failed too often", "job/batch")
async def _failed_job(stage: Stage) -> None:
    await stage.apply(JOB.replace("backoffLimit: 3", "backoffLimit: 1"))
    await stage.pass_time(60)


@scenario("A policy fails a job", "job/batch")
async def _policy(stage: Stage) -> None:
    rule = "{action: FailJob, onExitCodes: {operator: In, values: [42]}}"
    await stage.apply(
        JOB.replace("backoffLimit: 3", f"podFailurePolicy: {{rules: [{rule}]}}")
    )
    await stage.pass_time(30)


@scenario("A job is suspended", "job/batch")
async def _suspended_job(stage: Stage) -> None:
    await stage.apply(JOB.replace("backoffLimit: 3", "suspend: true"))
    await stage.pass_time(10)


CRON_JOB = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: report}
spec:
  schedule: '* * * * *'
  concurrencyPolicy: Forbid
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: app, image: busybox, command: [sleep, '600']}]
"""


@scenario("The next run of a cron job", "cj/report")
async def _next_run(stage: Stage) -> None:
    await stage.apply(CRON_JOB)
    await stage.pass_time(10)


@scenario("A cron job waits for the run before", "cj/report")
async def _forbidden(stage: Stage) -> None:
    await stage.apply(CRON_JOB)
    await stage.pass_time(150)


@scenario("A run missed its deadline", "cj/report", without="cronjob-controller")
async def _missed(stage: Stage) -> None:
    await stage.apply(
        CRON_JOB.replace("schedule:", "startingDeadlineSeconds: 20\n  schedule:")
    )
    await stage.pass_time(100)


@scenario("A cron job is suspended", "cj/report")
async def _suspended_cron_job(stage: Stage) -> None:
    await stage.apply(CRON_JOB.replace("schedule:", "suspend: true\n  schedule:"))
    await stage.pass_time(10)


@scenario("The schedule of a cron job has no run", "cj/report")
async def _no_run(stage: Stage) -> None:
    await stage.apply(CRON_JOB)
    path = "batch/v1 cronjobs/report"
    await stage.patch(path, {"spec": {"schedule": "0 0 31 2 *"}})
    await stage.pass_time(10)


AUTOSCALER = """
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 2
  maxReplicas: 5
  metrics:
    - type: Resource
      resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}
"""


@scenario("The pods of an autoscaler lack a request", "hpa/web")
async def _request(stage: Stage) -> None:
    await stage.apply(deployment())
    await stage.apply(AUTOSCALER)
    await stage.pass_time(60)


@scenario("An autoscaler has no target", "hpa/web")
async def _target(stage: Stage) -> None:
    await stage.apply(AUTOSCALER)
    await stage.pass_time(30)


@scenario("An autoscaler is disabled", "hpa/web")
async def _disabled(stage: Stage) -> None:
    await stage.apply(deployment().replace("replicas: 2", "replicas: 0"))
    await stage.apply(AUTOSCALER)
    await stage.pass_time(30)


BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}
"""


@scenario("A budget never allows an eviction", "pdb/web")
async def _never(stage: Stage) -> None:
    await stage.apply(deployment())
    await stage.apply(BUDGET)
    await stage.pass_time(30)


@scenario("A budget blocks a drain while pods are not ready", "pdb/web")
async def _blocked(stage: Stage) -> None:
    await stage.apply(BUDGET.replace("minAvailable: 2", "maxUnavailable: 1"))
    await _crash(stage)


@scenario("Two managers set the replicas", "deploy/web")
async def _replicas(stage: Stage) -> None:
    await stage.apply(deployment(pod=REQUESTING))
    await stage.apply(AUTOSCALER)
    await stage.pass_time(40)


REQUESTING = "containers: [{name: app, image: web, resources: {requests: {cpu: 100m}}}]"


@scenario("A manager undoes the work of an autoscaler", "deploy/web")
async def _undone(stage: Stage) -> None:
    await stage.apply(deployment(pod=REQUESTING))
    await stage.apply(AUTOSCALER.replace("minReplicas: 2", "minReplicas: 3"))
    await stage.pass_time(40)
    await stage.apply(deployment(pod=REQUESTING))


@scenario("An autoscaler lacks a metric", "hpa/web")
async def _metric(stage: Stage) -> None:
    await stage.apply(deployment())
    external = "{metric: {name: orders}, target: {type: Value, value: '5'}}"
    first, _, _ = AUTOSCALER.partition("    - type: Resource")
    await stage.apply(f"{first}    - {{type: External, external: {external}}}")
    await stage.pass_time(60)


@scenario("A drain waits for a budget", "node/node-1")
async def _drain(stage: Stage) -> None:
    await stage.apply(deployment())
    await stage.apply(BUDGET)
    await stage.pass_time(10)
    await stage.patch("v1 cluster:nodes/node-1", {"spec": {"unschedulable": True}})
    await stage.pass_time(30)


@scenario("Two managers change a spec in turn", "deploy/web")
async def _fight(stage: Stage) -> None:
    for _ in range(5):
        for manager, image in (("argocd", "web:1"), ("image-updater", "web:2")):
            await stage.apply(
                deployment(pod=f"containers: [{{name: app, image: '{image}'}}]"),
                manager=manager,
            )
            await stage.pass_time(3)
    await stage.pass_time(10)


@scenario("Two selectors overlap", "deploy/web")
async def _overlap(stage: Stage) -> None:
    await stage.apply(deployment())
    await stage.apply(deployment("second").replace("app: second", "app: web"))
    await stage.pass_time(10)
    await stage.apply(
        f"""
apiVersion: v1
kind: Pod
metadata: {{name: left, labels: {{app: web}}}}
spec: {{{CONTAINER}}}
"""
    )
    await stage.pass_time(10)


@scenario("A finalizer of a dependent blocks its owner", "deploy/web")
async def _foreground(stage: Stage) -> None:
    await stage.apply(deployment(spec="revisionHistoryLimit: 0"))
    await stage.pass_time(10)
    names = stage.names("apps", "replicasets")
    held = {"metadata": {"finalizers": ["example.com/audit"]}}
    await stage.patch(f"apps/v1 replicasets/{names[0]}", held)
    await stage.delete(
        "apps/v1 deployments/web",
        {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": "Foreground",
        },
    )
    await stage.pass_time(90)


@scenario("A node does not report", "pod/web")
async def _node(stage: Stage) -> None:
    await stage.apply(
        f"""
apiVersion: v1
kind: Pod
metadata: {{name: web}}
spec: {{{CONTAINER}, nodeName: node-1}}
"""
    )
    await stage.pass_time(5)
    stop = {"metadata": {"annotations": {"devcluster/stopped": "true"}}}
    await stage.patch("v1 cluster:nodes/node-1", stop)
    await stage.pass_time(90)


@scenario("A config map is missing", "pod/web")
async def _config(stage: Stage) -> None:
    await stage.apply(
        """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
    - name: app
      image: web
      envFrom: [{configMapRef: {name: settings}}]
"""
    )
    await stage.pass_time(20)


@scenario("A volume cannot be mounted", "pod/web")
async def _mount(stage: Stage) -> None:
    await stage.apply(
        f"""
apiVersion: v1
kind: Pod
metadata: {{name: web}}
spec:
  {CONTAINER}
  volumes: [{{name: settings, secret: {{secretName: settings}}}}]
"""
    )
    await stage.pass_time(60)


@scenario("A scheduling gate holds a pod", "pod/web")
async def _gate(stage: Stage) -> None:
    await stage.apply(
        f"""
apiVersion: v1
kind: Pod
metadata: {{name: web}}
spec: {{{CONTAINER}, schedulingGates: [{{name: example.com/quota}}]}}
"""
    )
    await stage.pass_time(20)


EACH_MINUTE = CRON_JOB.replace("concurrencyPolicy: Forbid", "concurrencyPolicy: Allow")


@scenario("A quota refuses the pods of a cron job", "cj/report")
async def _refused_run(stage: Stage) -> None:
    await stage.apply(QUOTA.replace("'1'", "'0'"))
    await stage.pass_time(5)
    await stage.apply(EACH_MINUTE)
    await stage.pass_time(130)


@scenario("The last run of a cron job has failed", "cj/report")
async def _failed_run(stage: Stage) -> None:
    annotations = "metadata: {annotations: {devcluster/exit-code: '42'}}"
    await stage.apply(
        EACH_MINUTE.replace(
            "      template:\n",
            f"      backoffLimit: 0\n      template:\n        {annotations}\n",
        )
    )
    await stage.pass_time(100)


@scenario("A full quota refuses pods", "quota/small")
async def _full_quota(stage: Stage) -> None:
    await stage.apply(QUOTA)
    await stage.pass_time(5)
    await stage.apply(deployment())
    await stage.pass_time(5)
    await stage.apply(JOB)
    await stage.pass_time(30)


@scenario("A quota is full and refuses nothing", "quota/small")
async def _used_quota(stage: Stage) -> None:
    await stage.apply(QUOTA.replace("'1'", "'2'"))
    await stage.pass_time(5)
    await stage.apply(deployment())
    await stage.pass_time(20)


@scenario("A taint evicts the pods of a fixed node", "deploy/web")
async def _evicted(stage: Stage) -> None:
    taint = {"key": "dedicated", "value": "gpu", "effect": "NoExecute"}
    await stage.patch("v1 cluster:nodes/node-1", {"spec": {"taints": [taint]}})
    await stage.apply(deployment(pod=f"nodeName: node-1\n      {CONTAINER}"))
    await stage.pass_time(40)


def _using(cpu: str, name: str, more: str = "") -> str:
    """Return a deployment with pods of the label app=web that use some CPU."""
    resources = "resources: {requests: {cpu: 100m}}"
    pod = f"containers: [{{name: app, image: 'nginx:1.27', {resources}}}]"
    given = deployment(name, pod, labels=_with_annotations(f"devcluster/cpu: {cpu}"))
    return given.replace(f"app: {name}", f"app: web{more}")


@scenario("An autoscaler counts the pods of others", "hpa/web")
async def _foreign_pods(stage: Stage) -> None:
    await stage.apply(_using("1m", "web"))
    await stage.apply(_using("200m", "batch", ", tier: batch"))
    await stage.apply(AUTOSCALER.replace("maxReplicas: 5", "maxReplicas: 50"))
    await stage.pass_time(120)


POD_NAME = "statefulset.kubernetes.io/pod-name"


@scenario("A stateful set cannot update its pods", "sts/db")
async def _failed_update(stage: Stage) -> None:
    await stage.apply(STATEFUL_SET)
    await stage.pass_time(30)
    had = f"'{POD_NAME}' in oldObject.metadata.labels"
    has = f"'{POD_NAME}' in object.metadata.labels"
    await stage.apply(
        f"""
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: no-new-names}}
spec:
  matchConstraints:
    resourceRules:
      - {{apiGroups: [''], apiVersions: [v1], operations: [UPDATE], resources: [pods]}}
  validations: [{{expression: "!({has}) || {had}", message: labels are fixed}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: no-new-names}}
spec: {{policyName: no-new-names, validationActions: [Deny]}}
"""
    )
    await stage.pass_time(5)
    await stage.patch("v1 pods/db-0", {"metadata": {"labels": {POD_NAME: None}}})
    await stage.pass_time(30)
