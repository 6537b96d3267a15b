"""The demo: applies the samples, changes them, and shows the work of the controllers.

``demo`` has the steps, ``load`` the load of the autoscaler, ``progress`` tells when a
step is done, ``rows`` makes a row for each workload, ``screen`` prints.
"""
