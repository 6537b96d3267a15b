"""pod-garbage-collector-controller: deletes pods that nobody else will.

``selection`` says which pods those are (pure), ``controller`` looks every twenty
seconds and deletes them.
"""
