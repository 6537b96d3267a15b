"""Parts of a cluster that make, attach, mount and resize volumes, without controllers.

On a real cluster these are the external ``provisioner``, ``attacher`` and ``resizer``
of a CSI driver, a part of the scheduler (``binding``), and a part of each kubelet
(``mounts``, ``sources``). The controllers bind claims and ask for attachments.

``driver`` has the objects of the CSI driver, ``delays`` its durations,
``storage_objects`` reads and writes objects, ``pod_claims`` finds the claims of pods,
``volume_fit`` matches volumes and claims.
"""
