"""The list of requests that a test asserts on."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from controller_manager.devcluster.testing import (
    ClusterError,
    ClusterSettings,
    DevelopmentCluster,
    RecordedRequest,
    requests,
)
from controller_manager.devcluster.testing.requests import RequestLog
from tests.devcluster.testing.calls import Caller
from tests.distributions import ROOT

PAGE = ROOT / "docs" / "testing-controllers.md"


@pytest.fixture(scope="module")
def recorded() -> Iterator[DevelopmentCluster]:
    with DevelopmentCluster(ClusterSettings(nodes=0, controllers=())) as cluster:
        yield cluster


def config_map(name: str, **data: str) -> Any:
    return {"metadata": {"name": name}, "data": data}


def test_the_example_of_the_page_works(recorded: DevelopmentCluster) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (example,) = [each for each in blocks if "cluster.requests" in each]
    caller = Caller(recorded.kubeconfig)

    def reconcile(namespace: str) -> None:
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        caller.send("POST", path, config_map("copy"))
        caller.get(path)
        caller.send("PUT", f"{path}/copy", config_map("copy", a="1"))

    names: dict[str, Any] = {}
    exec(example, names)  # noqa: S102 - of this repository
    test = names["test_the_operator_writes_no_more_than_it_must"]
    with recorded.namespace() as namespace:
        test(recorded, namespace, reconcile)


def test_a_request_has_its_user_its_object_and_its_answer(
    recorded: DevelopmentCluster,
) -> None:
    caller = Caller(recorded.kubeconfig)
    recorded.requests.clear()
    scale = "/apis/apps/v1/namespaces/default/deployments/web/scale"
    caller.send("GET", scale, agent="one/1")
    caller.get("/version")
    scaled, _ = recorded.requests
    assert scaled == RecordedRequest(
        user="kubernetes-admin",
        verb="get",
        resource="deployments.apps",
        subresource="scale",
        namespace="default",
        name="web",
        code=404,
        path=scale,
        user_agent="one/1",
    )
    assert [str(each) for each in recorded.requests] == [
        "get deployments.apps/scale default/web by kubernetes-admin: 404",
        "get /version by kubernetes-admin: 200",
    ]


def test_a_create_has_the_name_of_the_new_object(recorded: DevelopmentCluster) -> None:
    caller, path = Caller(recorded.kubeconfig), "/api/v1/namespaces/default/configmaps"
    recorded.requests.clear()
    made = caller.send("POST", path, {"metadata": {"generateName": "a-"}})
    caller.send("POST", path, {"metadata": {"name": "A"}})
    found = [(each.name, each.code) for each in recorded.requests.writes()]
    assert found == [(made.body["metadata"]["name"], 201), ("A", 422)]


def test_requests_are_selected_by_the_keywords_of_faults(
    recorded: DevelopmentCluster,
) -> None:
    path = "/api/v1/namespaces/default"
    admin = Caller(recorded.kubeconfig)
    admin.send("POST", f"{path}/serviceaccounts", {"metadata": {"name": "operator"}})
    account = Caller(recorded.account_kubeconfig("default", "operator"))
    recorded.requests.clear()
    for caller in (admin, account):
        caller.get(f"{path}/secrets")
        caller.send("POST", f"{path}/secrets", {"metadata": {"name": "a"}})
    name = "system:serviceaccount:default:operator"
    requests = recorded.requests
    assert len(requests) == 4
    assert [each.verb for each in requests.of(name)] == ["list", "create"]
    assert [each.code for each in requests.of(verbs="create")] == [201, 409]
    assert requests.of(resource="secrets", namespace="other") == []
    assert [each.user for each in requests.writes(name="a")][1] == name
    with pytest.raises(ClusterError, match="there is no verb 'post'"):
        requests.of(verbs="post")


def test_faults_are_answers_too(recorded: DevelopmentCluster) -> None:
    caller = Caller(recorded.kubeconfig)
    recorded.requests.clear()
    with recorded.faults.refuse(503, times=1):
        caller.get("/api/v1/nodes")
    with recorded.faults.cut(times=1), pytest.raises(ConnectionError):
        caller.get("/api/v1/nodes")
    assert [each.code for each in recorded.requests] == [503, 0]


def test_wrong_credentials_have_no_user(recorded: DevelopmentCluster) -> None:
    caller = Caller(recorded.kubeconfig)
    recorded.requests.clear()
    connection = caller.connection(5)
    connection.request("GET", "/api/v1/nodes", headers={"Authorization": "Bearer x"})
    assert connection.getresponse().status == 401
    connection.close()
    assert [(each.user, each.code) for each in recorded.requests] == [("", 401)]


def test_the_list_is_bounded() -> None:
    assert RequestLog().requests.maxlen == requests.MOST == 10_000
