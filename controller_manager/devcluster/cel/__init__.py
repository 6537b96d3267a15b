"""The evaluation of expressions in CEL, which ``control.cel`` parses and checks.

``program`` evaluates an expression: ``evaluation`` computes ``values`` with
``arithmetic``, the constants of ``literals``, the expansions of ``macros`` and the
functions of ``library``, and ``costs`` limits the steps.
"""
