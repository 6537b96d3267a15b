"""Metrics of the publisher, with upstream's names."""

from controller_manager.control.publishing import PublisherMetrics


class TrustBundleMetrics(PublisherMetrics):
    """The ``clustertrustbundle_publisher_*`` metrics."""

    subsystem = "clustertrustbundle_publisher"
    total_help = "Number of syncs of the bundle by their outcome's HTTP status"
    duration_help = (
        "Seconds that a sync of the bundle took by its outcome's HTTP status"
    )
