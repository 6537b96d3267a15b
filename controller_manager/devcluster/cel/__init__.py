"""The evaluation of expressions in CEL, which ``control.cel`` parses and checks.

``program`` evaluates an expression: ``evaluation`` computes ``values`` with
``arithmetic``, the constants of ``literals``, the expansions of ``macros`` and the
functions of ``library``, and ``costs`` limits the steps. ``estimates`` says before that
what an expression costs at most, with ``call_estimates`` of functions,
``operator_estimates`` and the ``sizes`` of values.
"""
