from __future__ import annotations

import pytest

from hypercobalt.lab.errors import LabError
from hypercobalt.lab.network.bridge import free_numbers, port_of


@pytest.mark.parametrize(
    ("routes", "links", "taken"),
    [
        ([], [], set[int]()),
        (["default", "0.0.0.0/0", "192.0.2.0/24", "unreachable"], ["lo", "eth0"], set[int]()),
        (["10.77.3.0/24"], [], {3}),
        (["10.77.4.254"], [], {4}),
        (["10.77.8.0/22"], [], {8, 9, 10, 11}),
        (["10.0.0.0/8"], [], set(range(256))),
        ([], ["hc5br", "vb-hc6-1", "hc7-1-r", "hc", "xhc9br"], {5, 6, 7}),
        (["fe80::/64", "", "10.77.300.0/24"], [], set[int]()),
    ],
)
def test_a_lab_takes_a_subnet_that_nothing_else_has(
    routes: list[str], links: list[str], taken: set[int]
) -> None:
    assert set(range(256)) - set(free_numbers(routes, links)) == taken


def test_a_port_is_named_as_nspawn_names_it_or_refused() -> None:
    assert port_of("hc255-200") == "vb-hc255-200"
    with pytest.raises(LabError, match="more than 15 characters"):
        port_of("hc255-200-more")
