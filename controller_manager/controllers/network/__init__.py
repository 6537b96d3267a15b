"""Controllers of services and of their endpoints.

``endpoints`` writes Endpoints; ``endpointslice`` writes endpoint slices;
``endpointslicemirroring`` copies Endpoints into slices; ``servicecidr`` protects ranges
of addresses.
"""
