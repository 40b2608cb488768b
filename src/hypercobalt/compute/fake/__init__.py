"""A compute service in memory, for tests: it acts as Nova, with the failures that a test sets."""

from hypercobalt.compute.fake.registry import FakeCompute

__all__ = ["FakeCompute"]
