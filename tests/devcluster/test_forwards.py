"""The annotation that names programs on this machine."""

from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.proxying import (
    Address,
    ForwardError,
    forward_of,
    has_forward,
    pod_forward,
    service_forward,
)
from controller_manager.devcluster.storage import Storage

EXPECTED = (
    "annotation devcluster/forward: must be an address of this machine, such as "
    '"127.0.0.1:8080", or several by port, such as '
    '"80=127.0.0.1:8080,metrics=127.0.0.1:9090"'
)


def noted(text: str | None, **fields: Any) -> JSON:
    notes = {} if text is None else {"annotations": {"devcluster/forward": text}}
    return {"metadata": {"name": "a", "namespace": "n", **notes}, **fields}


def pod(text: str | None = None, *, app: str = "web") -> JSON:
    """Return a pod with the port 8080, which has the name http."""
    ports = [{"containerPort": 8080, "name": "http"}]
    found = noted(text, spec={"containers": [{"name": "c", "ports": ports}]})
    found["metadata"]["labels"] = {"app": app}
    return found


def service(text: str | None = None) -> JSON:
    """Return a service with the ports 80 and 90; pods have them as http and 9000."""
    ports = [
        {"port": 80, "name": "web", "targetPort": "http"},
        {"port": 90, "name": "other", "targetPort": 9000},
    ]
    return noted(text, spec={"selector": {"app": "web"}, "ports": ports})


def storage(*, pods: tuple[JSON, ...] = (), services: tuple[JSON, ...] = ()) -> Storage:
    found = Storage()
    for plural, objects in (("pods", pods), ("services", services)):
        for number, each in enumerate(objects):
            found.collection(plural).put(("n", str(number)), each)
    return found


@pytest.mark.parametrize(
    ("text", "ports", "address"),
    [
        ("127.0.0.1:8080", ("80",), ("127.0.0.1", 8080)),
        ("localhost:1", ("80",), ("localhost", 1)),
        ("[::1]:8080", (), ("::1", 8080)),
        ("80=127.0.0.1:1, http = 127.0.0.2:2", ("http",), ("127.0.0.2", 2)),
        ("80=127.0.0.1:1,127.0.0.1:2", ("90",), ("127.0.0.1", 2)),
        ("80=127.0.0.1:1", ("90",), None),
        (None, ("80",), None),
    ],
)
def test_the_annotation_has_an_address_for_a_port(
    text: str | None, ports: tuple[str, ...], address: Address | None
) -> None:
    assert forward_of(noted(text), ports) == address


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("", ""),
        ("8080", ""),
        ("127.0.0.1", ""),
        ("127.0.0.1:x", ""),
        ("127.0.0.1:0", ""),
        ("127.0.0.1:65536", ""),
        ("10.0.0.1:80", "; only loopback addresses are allowed"),
        ("example.com:80", "; only loopback addresses are allowed"),
        ("80=127.0.0.1:1,90=0.0.0.0:1", "; only loopback addresses are allowed"),
    ],
)
def test_a_wrong_annotation_is_named(text: str, more: str) -> None:
    with pytest.raises(ForwardError) as caught:
        forward_of(noted(text), ("80",))
    assert str(caught.value) == f"{EXPECTED}{more}, it is {text!r}"


def test_a_pod_takes_the_annotation_of_its_service() -> None:
    """The port of the service leads to that of the pod; its own goes first."""
    with_service = storage(services=(service("web=127.0.0.1:1"),))
    assert pod_forward(with_service, pod(), 8080) == ("127.0.0.1", 1)
    assert pod_forward(with_service, pod("127.0.0.1:2"), 8080) == ("127.0.0.1", 2)
    assert pod_forward(with_service, pod("http=127.0.0.1:3"), 8080) == ("127.0.0.1", 3)
    assert pod_forward(with_service, pod(), 9000) is None
    assert pod_forward(with_service, pod(app="x"), 8080) is None
    assert has_forward(with_service, pod())
    assert not has_forward(with_service, pod(app="x"))


def test_a_service_takes_the_annotation_of_a_pod() -> None:
    """For the port of the pod; its own goes first."""
    with_pod = storage(pods=(pod(app="x"), pod("9000=127.0.0.1:1")))
    assert service_forward(with_pod, service(), "90") == ("127.0.0.1", 1)
    assert service_forward(with_pod, service(), "other") == ("127.0.0.1", 1)
    assert service_forward(with_pod, service(), "80") is None
    assert service_forward(with_pod, service(), "70") is None
    own = service("80=127.0.0.1:2")
    assert service_forward(with_pod, own, "") == ("127.0.0.1", 2)
