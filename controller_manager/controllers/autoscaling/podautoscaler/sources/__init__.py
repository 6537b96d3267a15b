"""The three APIs that metrics are read from.

``resource`` reads what pods use, ``custom`` metrics of objects (in the version that
``versions`` finds), ``external`` metrics of nothing in the cluster; ``apis`` makes all
three. ``reading`` sends the requests: each API has its own slots, so that an API that
answers slowly does not delay autoscalers that need another one.
"""
