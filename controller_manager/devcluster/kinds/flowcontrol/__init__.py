"""The kinds of the group flowcontrol.apiserver.k8s.io, one file each.

Kinds: ``flowschema``, ``prioritylevelconfiguration``. Shared: ``bootstrap_flows``
(objects of every cluster), ``add_bootstrap_flows`` (stores them),
``classification`` (the schema of a request),
``validation`` (the rules of both).
"""
