"""The evaluation of expressions in CEL, which `controller_manager.cel` parses.

``program`` evaluates an expression, and estimates what it costs at most; ``evaluation``
computes ``values`` with macros and the functions of ``standard_library`` and
``kubernetes_library``, and limits the steps.
"""
