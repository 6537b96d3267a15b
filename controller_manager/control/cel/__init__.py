"""A part of CEL, the language of admission policies: enough to find wrong fields.

``tokens`` and ``parser`` read an expression into the nodes of ``syntax``; ``types`` are
what is known of a value; ``checker`` finds what the type checker of cel-go would refuse
for sure. Whatever it does not know is of type `DYN`, of which it says nothing.
"""
