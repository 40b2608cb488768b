"""The garbage collector while sockets are left to it."""

from __future__ import annotations

import gc

from tests.sockets import left_to_the_collector


def test_nested_block_leaves_the_collector_off_for_the_outer_one() -> None:
    with left_to_the_collector():
        with left_to_the_collector():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
