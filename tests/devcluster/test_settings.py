"""The settings of a cluster: declared once, and offered in three places."""

from dataclasses import fields

import pytest

from controller_manager.devcluster.admission import ON_BY_DEFAULT, WITHOUT_ACCOUNTS
from controller_manager.devcluster.cli.cluster import devcluster_command
from controller_manager.devcluster.cluster import ClusterOptions, prepared
from controller_manager.devcluster.registry.core.service_addresses import DEFAULT_RANGE
from controller_manager.devcluster.settings import Settings, settings_of
from controller_manager.devcluster.testing import ClusterSettings
from controller_manager.devcluster.testing.plugin import OPTIONS
from controller_manager.registry import registry
from controller_manager.runtime.registry import Registry

OWN = frozenset(("help", "secure_port", "without_controllers", "write_kubeconfig"))
"""Flags of the command that are no settings of a cluster."""

BUILD_WITHOUT_ACCOUNTS = Registry(
    tuple(
        each
        for each in registry().descriptors
        if each.name != "serviceaccount-controller"
    )
)


def test_each_flag_of_the_command_is_a_setting() -> None:
    flags = {each.name for each in devcluster_command.params} - OWN
    settings = {each.name for each in settings_of(Settings)}
    assert settings - flags == {"controllers"}
    assert flags <= settings


def test_the_plugin_shows_the_defaults_of_the_settings() -> None:
    shown = {each.setting.name: each for each in OPTIONS}
    assert shown.keys() <= {each.name for each in fields(ClusterSettings)}
    by_word = {"data": "in memory", "feature_gates": "upstream's"}
    for name, option in shown.items():
        if name in by_word:
            assert option.default == by_word[name]
        else:
            assert option.parse(option.default) == getattr(ClusterSettings(), name)


def test_a_cluster_gets_the_settings_of_its_server() -> None:
    settings = ClusterSettings(
        service_cluster_ip_range="10.1.0.0/16", without_attacher=True, nodes=7
    )
    with prepared(settings, registry(), secure_port=0, port_remedy="mend") as made:
        options = made.options
        assert options.service_cluster_ip_range == "10.1.0.0/16"
        assert (options.without_attacher, options.without_resizer) == (True, False)
        assert (options.nodes, options.port_remedy) == (7, "mend")
        assert (made.directory / "ca.key").exists()
    assert not made.directory.exists()
    assert ClusterOptions().service_cluster_ip_range == DEFAULT_RANGE


@pytest.mark.parametrize(
    ("build", "controllers", "plugins"),
    [
        (registry(), ("*",), ON_BY_DEFAULT),
        (registry(), (), WITHOUT_ACCOUNTS),
        (registry(), ("*", "-serviceaccount-controller"), WITHOUT_ACCOUNTS),
        (BUILD_WITHOUT_ACCOUNTS, ("*",), WITHOUT_ACCOUNTS),
    ],
)
def test_pods_need_accounts_only_where_controllers_make_them(
    build: Registry, controllers: tuple[str, ...], plugins: frozenset[str]
) -> None:
    settings = Settings(controllers=controllers)
    with prepared(settings, build, secure_port=0, port_remedy="") as made:
        assert made.options.admission_plugins == plugins
