"""The core group.

- ``bootstrap_tokens``: secrets by which new nodes join a cluster
- ``claims``: persistent volume claims
- ``compute``: requests and limits of containers and pods
- ``endpoints``: Endpoints
- ``equality``: semantic equality of pod templates
- ``image_names``: names of container images
- ``pod_defaults``: the defaults of a pod template's spec
- ``pod_secrets``: the secrets that a pod uses
- ``quotas``: resource quotas
- ``scheduling``: taints, tolerations and affinities
- ``secrets``: secrets
- ``services``: services
- ``v1``: all other kinds, such as pods and nodes
- ``volume_sources``: the sources of volumes
- ``volumes``: persistent volumes
"""
