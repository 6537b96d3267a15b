"""A part of CEL, the expression language of admission policies.

``tokens`` and ``parser`` read an expression into the nodes of ``syntax``, or fail with
a message of ``expected``. ``types`` has
the types of values, ``schemas`` makes them from OpenAPI, and ``checker`` finds errors
that the type checker of cel-go finds for sure, with the overloads of ``operators``. A
value that the checker cannot type has the type `DYN` and causes no error. ``messages``
formats errors. No controller evaluates expressions; the development cluster does.
"""
