"""The nodes of a development cluster: a simulated scheduler and simulated kubelets.

They change objects in the API server of the same process, and run no containers.
``nodes`` starts all parts.

- Packages: ``scheduling`` (the scheduler), ``volumes`` (CSI driver and mounts),
  ``devices`` and ``device_requests`` (claims to devices).
- Kubelets: ``kubelet``, ``node_status``, ``heartbeats``, ``pod_fit``,
  ``pressure`` (evictions), ``local_storage`` (files that commands write),
  ``events`` and ``event_notes``, ``addresses``,
  ``configuration`` (config maps and secrets).
- Pods: ``pod_runs``, ``pod_steps``, ``pod_status``, ``pod_states`` (tests of a status),
  ``restored_pods`` (runs from statuses).
- Containers: ``container_runs``, ``container_status``, ``machine`` (before a start),
  ``images``, ``probes``, ``programs`` with ``annotations``, ``container_commands``,
  ``commands`` and ``scripts`` (duration and exit code).
- Requests: ``logs``, ``log_lines``, ``log_options``, ``pod_connections`` (exec and
  others), ``node_proxy`` with ``kubelet_server`` (the endpoints of kubelets), ``guide``
  (what pods can be told to do).
"""
