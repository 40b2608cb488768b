"""A compute service in memory, for tests: as Nova, and with the failures that a test sets."""

from hypercobalt.compute.fake.registry import FakeCompute

__all__ = ["FakeCompute"]
