"""Controllers of objects of every kind (SIG API Machinery).

``garbagecollector``, ``namespace``, ``resourcequota``,
``storageversiongarbagecollector``, ``storageversionmigrator`` and
``validatingadmissionpolicystatus`` are the controllers.
"""
