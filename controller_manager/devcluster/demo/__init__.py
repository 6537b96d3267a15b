"""The demo: applies the samples, changes them, and shows the work of the controllers.

``demo`` has the steps, ``user`` the actions of a user, by a client of
kubernetes_asyncio. ``progress`` tells when a step is done, ``rows`` makes a row for
each workload, ``screen`` prints.
"""
