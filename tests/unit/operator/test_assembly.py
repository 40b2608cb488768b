"""Passes begin once the caches that they read are full: what is not read yet is not missing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TypeVar, cast

import pytest
from tests.integration.runtime.scripted import ScriptedServer
from tests.unit.runtime.memory import memory_kube

from hypercobalt.api.core import Node
from hypercobalt.api.meta import Object
from hypercobalt.compute.fake.registry import FakeCompute
from hypercobalt.operator.assembly import add_controllers
from hypercobalt.operator.certificates.settings import Issuing
from hypercobalt.operator.ha.settings import HaSettings
from hypercobalt.operator.settings import OperatorOptions
from hypercobalt.operator.shared.ha_mode import HaMode
from hypercobalt.runtime import (
    Controller,
    FakeClock,
    Informer,
    ListResult,
    Manager,
    Metrics,
    SystemClock,
)
from hypercobalt.runtime.cache import IndexFunction

pytestmark = pytest.mark.looptime
T = TypeVar("T", bound=Object)


class Assembled(Manager):
    """A manager that runs nothing, and shows what it was given."""

    def __init__(self) -> None:
        clock = FakeClock()
        super().__init__(memory_kube(ScriptedServer(), clock), metrics=Metrics())
        self.controllers: dict[str, Controller] = {}
        self.caches: list[Informer[Object]] = []
        options = OperatorOptions(
            ("ns",), Issuing("ns", "nova"), ha=HaSettings(mode=HaMode.INTERNAL)
        )
        add_controllers(self, options, self.metrics, lambda *_: FakeCompute(clock.now))

    def add(self, controller: Controller) -> None:
        self.controllers[controller.name] = controller

    def informer(
        self,
        type_: type[T],
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        managers: bool = False,
    ) -> Informer[T]:
        made = super().informer(
            type_, namespace, labels=labels, fields=fields, indexes=indexes, managers=managers
        )
        self.caches.append(cast("Informer[Object]", made))
        return made

    def load(self, *, nodes: bool) -> None:
        """Fill the caches of Nodes, or all others."""
        for one in self.caches:
            if (one.selection.type is Node) is nodes:
                one.load(ListResult([], "1"))


@pytest.mark.parametrize("name", ["host-failure", "hypervisor", "lifecycle"])
async def test_no_pass_begins_before_the_nodes_are_known(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    manager, stop = Assembled(), asyncio.Event()
    running = asyncio.create_task(
        manager.controllers[name].run(stop, metrics=manager.metrics, clock=SystemClock())
    )
    manager.load(nodes=False)
    await asyncio.sleep(1)
    assert "controller_started" not in caplog.text
    manager.load(nodes=True)
    await asyncio.sleep(1)
    assert "controller_started" in caplog.text
    stop.set()
    await running
