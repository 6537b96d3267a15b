"""OpenAPI documents, which kubectl uses to explain and validate.

``documents`` answers requests, ``definitions`` has the types of built-in kinds and
``custom_schemas`` those of custom resources, ``protobuf`` encodes the document of
version 2.
"""
