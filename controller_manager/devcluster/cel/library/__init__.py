"""The functions that expressions may call.

`METHODS` take the value before the dot as the first argument; `GLOBALS` stand alone
or have a namespace, such as ``sets.contains``. ``standard`` has the functions of
cel-go's standard environment, ``strings`` and ``lists`` those of its extensions, and
``optionals`` optional values. ``resources`` (URLs, quantities, addresses),
``authorization`` and ``patches`` have those of the API server. ``checks`` checks
arguments.
"""
