"""Benchmarks of the development cluster itself.

- `requests`: pods and requests a second over HTTPS, also of another cluster;
- `pods`: pods a second, and the CPU time of one, beside those of another source;
- `held`: memory, lists, pages and watches of many objects;
- `starts`: how long it takes to start.
"""
