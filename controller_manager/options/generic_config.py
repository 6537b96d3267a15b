"""Makes the config of the daemon itself, of its leases, and of its preview."""

from typing import Final

from .checks import readable_document
from .config import GenericConfig, LeaderElectionConfig, PreviewConfig
from .leader_migration import (
    LeaderMigrationConfig,
    read_leader_migration,
    unknown_fields,
)
from .options import Options

_JITTER: Final = 1.2


def generic_config(options: Options) -> GenericConfig:
    """Return the config of the daemon itself."""
    return GenericConfig(
        controllers=options.words("controllers"),
        controller_start_interval=options.not_negative("controller-start-interval"),
        controller_shutdown_timeout=options.not_negative("controller-shutdown-timeout"),
        min_resync_period=options.not_negative("min-resync-period"),
        # A negative period is none, as for a timer of Go.
        node_monitor_period=max(0.0, options.seconds("node-monitor-period")),
        api_server_timeout=options.not_negative("wait-for-apiserver-timeout"),
        use_service_account_credentials=options["use-service-account-credentials"],
        profiling=options["profiling"],
        leader_election=_leader_election(options),
        leader_migration=_leader_migration(options),
    )


def preview_config(options: Options) -> PreviewConfig:
    """Return the config of the preview."""
    grace = options.positive("preview-grace")
    preview = PreviewConfig(options["preview"], grace, options["preview-dry-run"])
    if preview.enabled and options["use-service-account-credentials"]:
        options.warnings.append(
            "--use-service-account-credentials: has no effect with --preview: a token "
            "of a service account would be a write, so all controllers have the "
            "manager's own identity"
        )
    if not preview.enabled:
        for flag in ("preview-dry-run", "preview-grace"):
            if options.is_set(flag):
                where = options.origin(flag)
                options.warnings.append(f"{where}: has no effect without --preview")
    return preview


def _leader_election(options: Options) -> LeaderElectionConfig:
    config = LeaderElectionConfig(
        # A preview takes no lease: another manager is in charge.
        leader_elect=options["leader-elect"] and not options["preview"],
        lease_duration=options.seconds("leader-elect-lease-duration"),
        renew_deadline=options.seconds("leader-elect-renew-deadline"),
        retry_period=options.seconds("leader-elect-retry-period"),
        resource_name=options["leader-elect-resource-name"],
        resource_namespace=options["leader-elect-resource-namespace"],
    )
    if not config.leader_elect:
        return config
    lock = options["leader-elect-resource-lock"]
    if lock != "leases":
        options.problem("leader-elect-resource-lock", f'must be "leases", not "{lock}"')
    for name in ("name", "namespace"):
        if not options[f"leader-elect-resource-{name}"]:
            options.warnings.append(
                f"{options.origin(f'leader-elect-resource-{name}')}: without it the "
                "lease cannot be taken, and no controller starts"
            )
    if config.renew_deadline <= 0:
        options.problem("leader-elect-renew-deadline", "must be greater than 0")
    elif config.renew_deadline >= config.lease_duration:
        options.problem(
            "leader-elect-renew-deadline",
            f"{options['leader-elect-renew-deadline']} must be less than "
            "--leader-elect-lease-duration, "
            f"which is {options['leader-elect-lease-duration']}",
        )
    if config.retry_period <= 0:
        options.problem("leader-elect-retry-period", "must be greater than 0")
    elif config.renew_deadline <= _JITTER * config.retry_period:
        options.problem(
            "leader-elect-retry-period",
            f"{options['leader-elect-retry-period']} times {_JITTER} (jitter) must be "
            "less than --leader-elect-renew-deadline, "
            f"which is {options['leader-elect-renew-deadline']}",
        )
    return config


def _leader_migration(options: Options) -> LeaderMigrationConfig | None:
    """Return the configuration of leader migration, `None` if it is not enabled."""
    flag = "leader-migration-config"
    if not options["enable-leader-migration"]:
        if options.is_set(flag):
            options.warnings.append(
                f"{options.origin(flag)}: has no effect without "
                "--enable-leader-migration"
            )
        return None
    if not options["leader-elect"]:
        options.warnings.append(
            f"{options.origin('enable-leader-migration')}: has no effect without "
            "--leader-elect"
        )
        return None
    config, problems = read_leader_migration(options[flag])
    if config is None:
        known = readable_document(options[flag])
        for problem in problems:
            if problem != known:  # the check of the flag has said so
                options.problem(flag, problem)
        return None
    origin = f"{options.origin(flag)}: {options[flag]}"
    options.warnings += [
        f"{origin}: {each}: there is no such field, it is ignored"
        for each in unknown_fields(options[flag])
    ]
    problems, _ = options.build.check_selection(config.components)
    options.warnings += [f"{origin}: {each}" for each in problems]
    return config
