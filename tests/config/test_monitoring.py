"""Monitoring: the scraped endpoints, and each alert with its runbook."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry

from controller_manager.api.json_objects import JSON
from controller_manager.cli.flags import make_config as parsed
from controller_manager.options.config import LeaderElectionConfig
from controller_manager.registry import registry
from tests.clusters import Cluster, make_config, manager_of
from tests.config.manifests import BASE, MONITORING, documents
from tests.config.queries import (
    PLAIN,
    ROOT,
    RUNBOOKS,
    dashboard,
    metrics,
    of_alerts,
    of_panels,
    of_runbooks,
    panels,
    rules,
)
from tests.distributions import completed
from tests.documents.markdown import Page, commands

GUIDE = ROOT / "docs" / "monitoring.md"

ALERT_TESTS = Path(__file__).parent / "alerts.yaml"

WITHOUT_OPERATOR = (MONITORING, MONITORING / "trial")
WITH_OPERATOR = (MONITORING / "operator", MONITORING / "trial-operator")
OPERATOR = "monitoring.coreos.com/v1"

KUBECTL = frozenset(
    ("api-resources", "apply", "create", "delete", "describe", "get", "logs", "top")
)
"""Commands of kubectl that the runbooks may use."""


def objects(directory: Path) -> list[JSON]:
    return [
        each
        for path in sorted(directory.glob("*.yaml"))
        for each in documents(path)
        if each["kind"] != "Kustomization"
    ]


def alerts() -> list[str]:
    return [rule["alert"] for rule in rules()]


def metrics_of_the_daemon(cluster: Cluster) -> set[str]:
    prometheus = CollectorRegistry()
    manager_of(
        cluster,
        make_config(leader_election=LeaderElectionConfig()),
        registry=prometheus,
    )
    suffixes = {"histogram": ("_bucket", "_count", "_sum"), "counter": ("_total",)}
    of_daemon = {
        f"{metric.name}{suffix}"
        for metric in prometheus.collect()
        for suffix in suffixes.get(metric.type, ("",))
    }
    of_controllers = {
        f"{name}{suffix}"
        for descriptor in registry().descriptors
        for name in descriptor.metrics
        for suffix in ("", *suffixes["histogram"])
    }
    return of_daemon | of_controllers


@pytest.mark.looptime
async def test_only_metrics_that_exist_are_asked_for(cluster: Cluster) -> None:
    """By name; a misspelt one would be silent for ever."""
    known = metrics_of_the_daemon(cluster) | {"up"}
    for title, query in (*of_panels(), *of_alerts(), *of_runbooks()):
        asked = metrics(query)
        assert asked, title
        assert asked <= known, title


def test_every_alert_has_a_severity_texts_and_the_url_of_its_runbook() -> None:
    """A description says more than the summary; the URL is below the repository's."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    runbooks = f"{project['urls']['Repository']}/blob/main/docs/runbooks"
    names = alerts()
    assert len(names) == len(set(names)) == 13
    assert {
        rule["alert"]: (
            rule["labels"]["severity"] in ("critical", "warning"),
            rule["annotations"].keys(),
            rule["annotations"]["summary"].endswith("."),
            rule["annotations"]["description"].count(". ") > 0,
            rule["annotations"]["runbook_url"],
        )
        for rule in rules()
    } == {
        name: (
            True,
            {"summary", "description", "runbook_url"},
            True,
            True,
            f"{runbooks}/{name}.md",
        )
        for name in names
    }


def test_a_plain_prometheus_has_the_alerts_of_the_operator() -> None:
    for directory, name in zip(WITH_OPERATOR, ("", "trial-"), strict=True):
        (found,) = documents(directory / "prometheus-rule.yaml")
        assert (
            yaml.safe_load((PLAIN / f"{name}rules.yaml").read_text()) == found["spec"]
        )


def test_a_plain_prometheus_scrapes_as_the_operators() -> None:
    for directory, services, name in zip(
        WITH_OPERATOR, WITHOUT_OPERATOR, ("", "trial-"), strict=True
    ):
        (monitor,) = documents(directory / "service-monitor.yaml")
        (endpoint,) = monitor["spec"]["endpoints"]
        (service,) = documents(services / "service.yaml")
        job = service["metadata"]["labels"][monitor["spec"]["jobLabel"]]
        given = yaml.safe_load((PLAIN / f"{name}scrape-configs.yaml").read_text())
        (found,) = given["scrape_configs"]
        authority = endpoint["tlsConfig"].get("caFile")
        assert found.pop("tls_config") == {
            "ca_file": authority or "/etc/prometheus/controller-manager-trial.crt",
            "server_name": endpoint["tlsConfig"]["serverName"],
        }
        assert found == {
            "job_name": job,
            "scheme": endpoint["scheme"],
            "metrics_path": endpoint["path"],
            "scrape_interval": endpoint["interval"],
            "authorization": {"credentials_file": endpoint["bearerTokenFile"]},
            "kubernetes_sd_configs": [
                {
                    "role": "endpointslice",
                    "namespaces": {"names": [service["metadata"]["namespace"]]},
                }
            ],
            "relabel_configs": [
                {
                    "source_labels": [f"__meta_kubernetes_{label}"],
                    "regex": value,
                    "action": "keep",
                }
                for label, value in (
                    ("service_label_app_kubernetes_io_name", job),
                    ("endpointslice_port_name", endpoint["port"]),
                )
            ]
            + [
                {
                    "source_labels": [f"__meta_kubernetes_{source}"],
                    "target_label": label,
                }
                for source, label in (("namespace", "namespace"), ("pod_name", "pod"))
            ],
        }


def promtool(*arguments: str) -> str:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("no promtool; CI runs it as a step of its own")
    result = completed(program, *arguments)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_promtool_takes_the_scrape_configs(tmp_path: Path) -> None:
    """Debian's knows no discovery in Kubernetes, so it is left out."""
    for name in ("", "trial-"):
        given = yaml.safe_load((PLAIN / f"{name}scrape-configs.yaml").read_text())
        for each in given["scrape_configs"]:
            del each["kubernetes_sd_configs"]
        path = tmp_path / "prometheus.yml"
        path.write_text(yaml.safe_dump(given))
        assert "SUCCESS" in promtool("check", "config", "--syntax-only", str(path))


@pytest.mark.slow
def test_promtool_tests_the_alerts() -> None:
    assert "SUCCESS" in promtool("test", "rules", str(ALERT_TESTS))


def test_every_alert_is_tested_firing_and_not_firing() -> None:
    """The name of a test says so, and the test expects it."""
    fires: dict[str, set[bool]] = {name: set() for name in alerts()}
    for test in yaml.safe_load(ALERT_TESTS.read_text())["tests"]:
        alert, verdict, _ = test["name"].split(" ", 2)
        expected = [
            each["exp_alerts"]
            for each in test.get("alert_rule_test", ())
            if each["alertname"] == alert
        ] + [
            each["exp_samples"]
            for each in test.get("promql_expr_test", ())
            if f'alertname="{alert}"' in each["expr"]
        ]
        assert any(expected) is (verdict == "fires"), test["name"]
        fires[alert].add(any(expected))
    assert fires == {name: {True, False} for name in alerts()}


def test_every_alert_has_a_page_and_every_page_an_alert() -> None:
    pages = {path.stem for path in RUNBOOKS.glob("*.md")} - {"README"}
    assert pages == set(alerts())
    listed = re.findall(
        r"^\| \[(\w+)\]", (RUNBOOKS / "README.md").read_text(), re.MULTILINE
    )
    assert listed == sorted(alerts())


@pytest.mark.parametrize("alert", alerts())
def test_a_runbook_says_the_meaning_how_to_look_and_how_to_mend(alert: str) -> None:
    """With the severity of the alert, and with commands of kubectl that exist."""
    page = Page.at(RUNBOOKS / f"{alert}.md")
    (rule,) = (each for each in rules() if each["alert"] == alert)
    titles = re.findall(r"^#+ (.+)$", page.prose, re.MULTILINE)
    assert titles == [alert, "Meaning", "How to look", "How to mend"]
    assert f"Severity: {rule['labels']['severity']}." in page.text
    assert all(page.section(title).strip() for title in titles[1:])
    used = {
        next(
            word
            for previous, word in zip(each.words, each.words[1:], strict=False)
            if not word.startswith("-") and previous != "-n"
        )
        for script in page.blocks("sh")
        for each in commands(script)
        if each.words[0] == "kubectl"
    }
    assert used <= KUBECTL


def test_the_log_lines_that_runbooks_look_for_are_those_of_the_program() -> None:
    source = "".join(
        path.read_text() for path in (ROOT / "controller_manager").rglob("*.py")
    )
    searched = {
        text
        for path in RUNBOOKS.glob("*.md")
        for text in re.findall(r"grep '(.+?)'", path.read_text())
    }
    assert len(searched) > 4
    assert {text for text in searched if text not in source} == set()


# The dashboard


def test_every_panel_has_a_sentence_about_its_meaning() -> None:
    found = [(each["title"], each["description"]) for each in panels()]
    assert len(dict(found)) == len(found) > 15
    assert [each for each in found if not each[1].endswith(".")] == []
    assert [each for each in found if len(each[1].split()) < 6] == []


def test_the_panels_stand_in_rows_without_gaps_and_overlaps() -> None:
    """Each row begins a line; below it each line of panels is 24 wide."""
    found = dashboard()["panels"]
    assert found[0]["type"] == "row"
    assert [each["id"] for each in found] == list(range(1, len(found) + 1))
    x = y = 0
    for each in found:
        place = each["gridPos"]
        assert (place["x"], place["y"]) == (x, y), each["title"]
        x += place["w"]
        if x == 24:
            x, y = 0, y + place["h"]
    assert x == 0


def test_panels_with_many_lines_show_the_largest() -> None:
    """A manager has hundreds of queues, resources and controllers."""
    many = re.compile(r"by \((?=[^)]*\b(controller|name|resource|cause)\b)[^)]*\)")
    few = {"Leader"}
    for title, query in of_panels():
        assert (many.search(query) is None or title in few) is not (
            re.match(r"topk( by \(instance\))? ?\(10, ", query) is not None
        ), title


def test_the_dashboard_chooses_job_and_controllers() -> None:
    variables = {each["name"]: each for each in dashboard()["templating"]["list"]}
    assert list(variables) == ["datasource", "job", "controller"]
    assert variables["controller"]["multi"]
    assert variables["controller"]["includeAll"]
    for panel in panels():
        for target in panel["targets"]:
            query = target["expr"]
            asked = len(metrics(query)) and len(re.findall(r"\{", query))
            assert query.count('job="$job"') == asked
            has_label = "controller_" in query
            assert ('controller=~"$controller"' in query) is has_label


# A scraped endpoint


def test_only_what_stands_in_its_place_is_scraped_as_kube_controller_manager() -> None:
    """The trial has a job of its own: it does not hide that the other is down."""
    jobs = {}
    for directory, services in zip(WITH_OPERATOR, WITHOUT_OPERATOR, strict=True):
        (monitor,) = documents(directory / "service-monitor.yaml")
        (service,) = documents(services / "service.yaml")
        labels = service["metadata"]["labels"]
        assert monitor["spec"]["selector"]["matchLabels"] == labels
        assert monitor["metadata"]["namespace"] == service["metadata"]["namespace"]
        job = labels[monitor["spec"]["jobLabel"]]
        jobs[job] = service["spec"]["selector"]
        assert all("relabelings" not in each for each in monitor["spec"]["endpoints"])
    assert jobs == {
        "kube-controller-manager": {
            "component": "kube-controller-manager",
            "tier": "control-plane",
        },
        "controller-manager": {"app.kubernetes.io/name": "controller-manager"},
    }
    (deployment,) = documents(BASE / "deployment.yaml")
    template = deployment["spec"]["template"]
    assert template["metadata"]["labels"] == jobs["controller-manager"]
    ports = {each["name"] for each in template["spec"]["containers"][0]["ports"]}
    (service,) = documents(MONITORING / "trial" / "service.yaml")
    assert {each["targetPort"] for each in service["spec"]["ports"]} <= ports


def endpoints() -> list[JSON]:
    return [
        endpoint
        for directory in WITH_OPERATOR
        for monitor in documents(directory / "service-monitor.yaml")
        for endpoint in monitor["spec"]["endpoints"]
    ]


def test_a_token_goes_to_verified_peers_only() -> None:
    for endpoint in endpoints():
        assert endpoint["scheme"] == "https"
        settings = endpoint["tlsConfig"]
        assert "insecureSkipVerify" not in settings
        assert {"ca", "caFile"} & settings.keys()
        assert settings["serverName"].endswith(".svc")


@pytest.mark.parametrize("script", [0, 1], ids=["static-pod", "trial"])
def test_the_certificates_of_the_guide_are_verified_by_the_monitors(
    tmp_path: Path, script: int
) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl")
    sections = Page(GUIDE, Page.at(GUIDE).section("Certificates")).blocks("sh")
    lines = sections[script].replace("cd /etc/kubernetes/pki\n", "")
    lines = re.sub(r"^kubectl (.*\\\n)*.*\n", "", lines, flags=re.MULTILINE)
    authority = "openssl req -x509 -newkey rsa:2048 -nodes -days 9 -subj /CN=kubernetes"
    run = f"set -e\n{authority} -keyout ca.key -out ca.crt\n{lines}"
    subprocess.run(
        ["sh", "-c", run], cwd=tmp_path, check=True, capture_output=True, timeout=60
    )
    name = endpoints()[script]["tlsConfig"]["serverName"]
    trusted, certificate = (
        ("ca.crt", "controller-manager-serving.crt"),
        ("tls.crt", "tls.crt"),
    )[script]
    verify = [openssl, "verify", "-CAfile", trusted, "-purpose", "sslserver"]
    for host, code in ((name, 0), ("other.svc", 2)):
        result = subprocess.run(
            [*verify, "-verify_hostname", host, certificate],
            cwd=tmp_path,
            check=False,
            capture_output=True,
        )
        assert result.returncode == code


@pytest.mark.parametrize(
    "path",
    ["static-pod/kube-controller-manager1+json.yaml", "trial/serving-certificate.yaml"],
)
def test_the_patches_add_flags_with_their_files(path: Path) -> None:
    operations = yaml.safe_load((MONITORING / path).read_text())
    assert {each["op"] for each in operations} == {"add"}
    values = [each["value"] for each in operations]
    flags = [each for each in values if isinstance(each, str)]
    config = parsed(
        {
            name: (value,)
            for name, _, value in (each[2:].partition("=") for each in flags)
        },
        [],
    )
    assert config.warnings == ()
    added = [each for each in values if isinstance(each, dict)]
    mounts = [each for each in added if "mountPath" in each]
    volumes = {each["name"] for each in added if "mountPath" not in each}
    assert {each["name"] for each in mounts} == volumes
    files = {each.partition("=")[2] for each in flags if "-file=" in each}
    assert len(files) == 2
    assert all(
        any(file.startswith(mount["mountPath"]) for mount in mounts) for file in files
    )


# With and without the Prometheus operator


def test_no_directory_needs_the_operator_for_a_part_only() -> None:
    """Else an API server without the operator would take the other part."""
    for directory in WITHOUT_OPERATOR:
        assert OPERATOR not in {each["apiVersion"] for each in objects(directory)}
    for directory in WITH_OPERATOR:
        assert {each["apiVersion"] for each in objects(directory)} == {OPERATOR}
