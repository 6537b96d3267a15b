"""Tests of the development cluster."""

import pytest

pytest.register_assert_rewrite("tests.devcluster.scenarios")
