"""PodBounds of a pod's unit, from its resources."""

from __future__ import annotations

from hypercobalt.api.pods import ResourceRequirements
from hypercobalt.api.quantity import Quantity
from hypercobalt.api.workloads import Container
from hypercobalt.lab.pods.running.bounds import PodBounds, bounds_of


def bounds(
    limits: dict[str, str] | None = None, requests: dict[str, str] | None = None
) -> PodBounds:
    def amounts(given: dict[str, str] | None) -> dict[str, Quantity]:
        return {name: Quantity.lazy(text) for name, text in (given or {}).items()}

    given = ResourceRequirements(limits=amounts(limits), requests=amounts(requests))
    return bounds_of(Container(name="compute", resources=given))


def test_limits_bound_and_requests_weigh() -> None:
    found = bounds({"memory": "256Mi", "cpu": "1500m"}, {"cpu": "500m", "memory": "64Mi"})
    assert found == PodBounds(memory_bytes=256 * 2**20, cpu_us=1_500_000, cpu_shares=512)


def test_limit_alone_weighs_as_much() -> None:
    assert bounds({"cpu": "2"}).cpu_shares == 2048


def test_without_limits_nothing_is_bounded() -> None:
    assert bounds(requests={"memory": "1Gi"}) == PodBounds(cpu_shares=2)
    assert bounds_of(Container(name="compute")) == PodBounds()


def test_limit_of_zero_is_none_and_a_tiny_one_is_not() -> None:
    assert bounds({"memory": "0", "cpu": "0"}) == PodBounds()
    assert bounds({"cpu": "1n"}).cpu_us == 1


def test_amounts_that_cannot_be_read_bound_nothing() -> None:
    assert bounds({"memory": "much", "cpu": "-1"}) == PodBounds()
    assert bounds(requests={"cpu": "9e99"}).cpu_shares in {2, 262144}
