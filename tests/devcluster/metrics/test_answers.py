"""The metrics APIs answer what the settings of a namespace say."""

from datetime import UTC, datetime
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.metrics import (
    SettingsError,
    answer,
    parse_settings,
)
from controller_manager.devcluster.scheme.statuses import Refusal
from tests.devcluster.metrics.pods import running
from tests.devcluster.rows import rows

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
TIME = "2026-01-01T12:00:00Z"
RESOURCE = "/apis/metrics.k8s.io/v1beta1/namespaces/default"
CUSTOM = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default"
EXTERNAL = "/apis/external.metrics.k8s.io/v1beta1/namespaces/default"


PODS = [
    running("b", labels={"app": "web"}),
    running("a", labels={"app": "web"}),
    running("other", labels={"app": "other"}),
    {**running("pending"), "status": {"phase": "Pending"}},
    running("going", deletionTimestamp=TIME),
]


def ask(settings: str, path: str, **query: str) -> tuple[int, JSON]:
    try:
        return 200, answer(parse_settings(settings), PODS, path, query, NOW)
    except Refusal as refusal:
        return refusal.code, refusal.status()


def values(settings: str, path: str, **query: str) -> list[Any]:
    code, body = ask(settings, path, **query)
    assert code == 200
    return [each["value"] for each in body["items"]]


def test_running_pods_have_metrics() -> None:
    """By their names, and by a star for the others; null is none."""
    settings = '{"resource": {"*": {"c": {"cpu": "100m"}}, "b": null}, "age": 30}'
    code, body = ask(settings, f"{RESOURCE}/pods", labelSelector="app=web")
    assert code == 200
    assert body == {
        "kind": "PodMetricsList",
        "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": {},
        "items": [
            {
                "metadata": {
                    "name": "a",
                    "namespace": "default",
                    "labels": {"app": "web"},
                    "creationTimestamp": TIME,
                },
                "timestamp": "2026-01-01T11:59:30Z",
                "window": "30s",
                "containers": [{"name": "c", "usage": {"cpu": "100m"}}],
            }
        ],
    }


def test_a_total_is_shared_by_the_selected_pods_that_have_metrics() -> None:
    """All quantities else are as they were given."""
    settings = '{"resource": {"*": {"c": {"cpu": "total:1", "memory": "0.5"}}}}'
    _, body = ask(settings, f"{RESOURCE}/pods", labelSelector="app=web")
    usages = [each["containers"][0]["usage"] for each in body["items"]]
    assert usages == [{"cpu": "500m", "memory": "0.5"}] * 2


def test_one_pod_is_answered_by_its_name() -> None:
    settings = '{"resource": {"a": {}}}'
    code, body = ask(settings, f"{RESOURCE}/pods/a")
    assert (code, body["kind"], body["metadata"]["name"]) == (200, "PodMetrics", "a")
    code, body = ask(settings, f"{RESOURCE}/pods/b")
    message = 'podmetrics.metrics.k8s.io "default/b" not found'
    assert (code, body["reason"], body["message"]) == (404, "NotFound", message)


def test_custom_metrics_are_those_of_pods_and_objects() -> None:
    settings = (
        '{"pods": {"hits": {"*": "total:9", "a": "1"}}, '
        '"objects": {"services/web": {"hits": "10"}, "metrics": {"load": "3"}}}'
    )
    assert values(settings, f"{CUSTOM}/pods/*/hits") == ["1", "3000m", "3000m"]
    code, body = ask(settings, f"{CUSTOM}/services/web/hits")
    assert code == 200
    assert body["items"] == [
        {
            "describedObject": {
                "kind": "services",
                "namespace": "default",
                "name": "web",
                "apiVersion": "v1",
            },
            "metric": {"name": "hits", "selector": None},
            "timestamp": TIME,
            "value": "10",
        }
    ]
    assert values(settings, f"{CUSTOM}/metrics/load") == ["3"]


def test_external_metrics_are_selected_by_their_labels() -> None:
    """None may be left; that is no error."""
    settings = (
        '{"external": {"queue": [{"labels": {"q": "a"}, "value": "20"}, '
        '{"value": "1"}]}}'
    )
    assert values(settings, f"{EXTERNAL}/queue") == ["20", "1"]
    assert values(settings, f"{EXTERNAL}/queue", labelSelector="q=a") == ["20"]
    assert values(settings, f"{EXTERNAL}/queue", labelSelector="q in (b)") == []


@rows("settings", "path", "code", "message")
def test_a_request_without_an_answer_gets_a_status(
    settings: str, path: str, code: int, message: str
) -> None:
    found, body = ask(settings, path)
    assert (found, body["kind"], body["code"]) == (code, "Status", code)
    assert body["message"] == message


def test_a_wrong_selector_is_an_error() -> None:
    code, body = ask("{}", f"{RESOURCE}/pods", labelSelector="!!")
    assert (code, body["reason"]) == (400, "BadRequest")


@pytest.mark.parametrize("text", ["", "[]", '{"ressource": {}}', '{"fail": "yes"}'])
def test_settings_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(SettingsError):
        parse_settings(text)
