from __future__ import annotations

from pathlib import Path

import pytest

from hypercobalt.lab.agents import node_agent_unit

COBALT = Path("/usr/bin/cobalt")


@pytest.mark.parametrize("definitions", [True, False])
def test_only_where_the_operator_starts_guests_itself_are_definitions_stored(
    *, definitions: bool
) -> None:
    unit = node_agent_unit(COBALT, "kvm-1", definitions=definitions)
    assert ("--store-definitions" in unit) is definitions
