"""How long Nova may show a dead host as up."""

from __future__ import annotations

from datetime import timedelta
from typing import cast

import pytest

from hypercobalt.adapters.openstack.client import Client
from hypercobalt.adapters.openstack.threads import Threads
from hypercobalt.compute.nova.service import Nova
from hypercobalt.compute.nova.settings import NovaSettings


@pytest.mark.parametrize("down", [60, 300])
def test_dead_host_may_be_shown_as_up_for_novas_own_time_and_a_listing(down: int) -> None:
    client, span = cast("Client", None), timedelta(seconds=down)
    nova = Nova(client, client, cast("Threads", None), NovaSettings(service_down_time=span))
    assert nova.silence == span + timedelta(seconds=10)
