"""OpenAPI documents, which kubectl uses to explain and validate.

- ``documents`` answers requests; ``protobuf`` encodes the document of version 2.
- ``definitions`` has the types of all kinds, and ``custom_schemas`` the schemas of
  custom resources.
- ``paths`` has the paths, ``operations`` what each is for, and ``parameters`` those of
  operations.
"""
