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
    await stage.pass_time(60)


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
