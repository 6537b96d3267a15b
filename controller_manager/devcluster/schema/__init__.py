"""The types and resources of the Kubernetes API 1.36, as data.

``models`` reads the types of one package of the API from ``models.data`` when one of
them is first asked for. ``decoding`` reads objects as Go does, with the ``readers`` of
values; ``duplicates`` finds fields that stand twice. ``go_types``, ``go_times`` and
``base64_data`` have the words of Go's errors. ``protobuf`` encodes and decodes objects
of these types, with ``protobuf_encoder``, ``protobuf_decoder`` and ``wire``. ``zeros``
fills in the fields that Go writes when they are empty. ``descriptions`` has texts about
fields, from ``descriptions.data``. ``file`` has the format of both files. ``resources``
has the resources that discovery lists, from ``resources.data``. ``python -m
controller_manager.devcluster.schema TABLE`` writes the data from a table of types and
resources. Nothing here knows requests or storage.
"""
