"""What `make test` plays besides the unit tests: a part of each ring that a newcomer meets first.

The other rings leave it out when `.ci/run` has played it (`-m 'not first'`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pytest

FIRST: Final = (
    # the contracts of the fakes
    "tests/integration/ovs/test_contract.py",
    "tests/integration/libvirt/test_contract.py",
    "tests/openstack/test_compute_port.py",
    # the embedded API server with kubectl and other clients
    "tests/integration/apiserver/test_kubectl_protobuf.py",
    "tests/integration/apiserver/test_examples.py",
    "tests/integration/apiserver/test_clients.py",
    # real hosts: the README's session, a crash and a fault of a switch
    "tests/lab/test_readme.py",
    "tests/lab/test_drills.py::test_drill_passes[vm-crash]",
    "tests/lab/test_ovs_agent.py::"
    "test_an_eviction_leaves_out_a_host_without_its_bridge_and_a_second_up_mends_that",
)


def mark(items: Iterable[pytest.Item]) -> None:
    """Give the tests of `FIRST` their marker; on a real OpenStack, they belong to its ring."""
    for item in items:
        if item.nodeid.startswith(FIRST):
            item.add_marker(pytest.mark.first)
