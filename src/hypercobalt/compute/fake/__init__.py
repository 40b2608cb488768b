"""A compute service in memory, for tests: it behaves as Nova does, and as badly as it is told."""

from hypercobalt.compute.fake.registry import FakeCompute

__all__ = ["FakeCompute"]
