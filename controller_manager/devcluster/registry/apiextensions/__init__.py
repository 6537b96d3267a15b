"""The kinds of the group apiextensions.k8s.io, one file each.

Kinds: ``customresourcedefinition``. Shared: ``approval`` (of protected groups),
``conversion`` (between versions), ``custom_kinds`` (the kinds of a definition),
``custom_resource_strategy`` (behaviour of custom resources), ``custom_resources``
(serves the kinds), ``definition_status`` (accepted names and conditions),
``definition_validation`` (the whole definition), ``version_validation`` (one version),
``json_paths`` (paths of columns), ``printer_columns`` (tables), ``schemas`` (structural
schemas).
"""
