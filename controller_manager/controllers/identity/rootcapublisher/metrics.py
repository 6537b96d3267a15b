"""Metrics of the publisher, with upstream's names."""

from controller_manager.control.publishing import PublisherMetrics


class RootCAMetrics(PublisherMetrics):
    """The ``root_ca_cert_publisher_*`` metrics."""

    subsystem = "root_ca_cert_publisher"
    total_help = "Number of namespace syncs by their outcome's HTTP status"
    duration_help = "Seconds that a namespace sync took by its outcome's HTTP status"
