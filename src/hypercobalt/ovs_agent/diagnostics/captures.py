"""Packets of a port as a stream in pcap's format: one capture at a time.

Source: docs/ovs-agent.md; docs/decisions/0038.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Final

from hypercobalt.adapters.capture import tcpdump
from hypercobalt.adapters.capture.filters import FilterError
from hypercobalt.adapters.capture.order import DURATION, CaptureOrder
from hypercobalt.adapters.ovs.mirror_tags import OWNER
from hypercobalt.adapters.ovs.mirrors import Mirrored, Mirrors
from hypercobalt.adapters.ovs.port import Switch, SwitchError
from hypercobalt.agent.diagnostics.use import BusyError, RefusedUseError, Use, UseRequest
from hypercobalt.errors import TransientError
from hypercobalt.logs import get_logger
from hypercobalt.ovs_agent.facts import SwitchFacts
from hypercobalt.ovs_agent.rules.captures import (
    PARAMETERS,
    CaptureRefusedError,
    PacketSource,
    order_of,
    source_of,
)
from hypercobalt.runtime import Clock
from hypercobalt.runtime.observable import Observable
from hypercobalt.runtime.routes import Stream

log = get_logger(__name__)

KIND: Final = "application/vnd.tcpdump.pcap"
_SPARE: Final = timedelta(seconds=10)  # from a mirror's first packet to its removal
_AGAIN: Final = 5.0  # seconds, while ovsdb-server does not answer
_SHORTEST: Final = 1.0  # seconds between two sweeps for a mirror that does not go


class Captures:
    """What people may capture on this host.

    Args:
        facts: what is known of the switch.
        switch: for the devices of now.
        mirrors: of this host's agent.
        clock: for when a mirror expires.
        by_mirror: whether ports without a network device are mirrored.
    """

    def __init__(
        self,
        facts: Callable[[], SwitchFacts],
        switch: Switch,
        mirrors: Mirrors,
        clock: Clock,
        *,
        by_mirror: bool,
    ) -> None:
        self._facts, self._switch, self._mirrors = facts, switch, mirrors
        self._clock, self._by_mirror = clock, by_mirror
        self._port = ""  # the one being captured

    def uses(self) -> tuple[Use, Use]:
        """Captures at ports of instances, and at every port."""
        return self._use("capture", uplinks=False), self._use("capture-uplink", uplinks=True)

    def _use(self, name: str, *, uplinks: bool) -> Use:
        return Use(
            name=name,
            right=name,
            handle=partial(self._handle, uplinks=uplinks),
            method="POST",
            parameters=PARAMETERS,
            seconds=20.0,
            lasts=(DURATION + _SPARE).total_seconds(),
        )

    async def _handle(self, request: UseRequest, *, uplinks: bool) -> Stream:
        try:
            order = order_of(request.parameters)
            source = await self._source(request.parameters.get("port", ""), uplinks=uplinks)
            chunks = self._capture(source, order)
            # The first item comes once tcpdump listens; from then on, closing ends it.
            await anext(chunks)
        except (CaptureRefusedError, FilterError) as error:
            raise RefusedUseError(str(error)) from error
        return Stream(chunks, KIND)

    async def _source(self, port: str, *, uplinks: bool) -> PacketSource:
        database = self._facts().rows
        if database is None:
            raise TransientError("ovsdb-server does not answer: its ports are not known")
        links = await self._switch.links()
        return source_of(database, links, port, uplinks=uplinks, mirrors=self._by_mirror)

    async def _capture(self, source: PacketSource, order: CaptureOrder) -> AsyncGenerator[bytes]:
        if self._port:
            raise BusyError(f"port {self._port} is being captured; one capture at a time on a host")
        self._port = source.name
        try:
            if source.mirror is not None:  # no mirror is made for a filter that is refused
                await tcpdump.compile_filter(order.expression, order.snaplen)
            async with (
                self._device(source, order) as device,
                aclosing(tcpdump.capture(replace(order, device=device))) as packets,
            ):
                async for data in packets:
                    yield data
        finally:
            self._port = ""

    @asynccontextmanager
    async def _device(self, source: PacketSource, order: CaptureOrder) -> AsyncGenerator[str]:
        if source.mirror is None:
            yield source.name
            return
        until = (self._clock.now() + order.duration + _SPARE).timestamp()
        bridge, port = source.mirror
        what = Mirrored(bridge, port)
        async with self._mirrors.mirror(what, snaplen=order.snaplen, until=until) as device:
            yield device


async def keep_swept(mirrors: Mirrors, facts: Observable[SwitchFacts], clock: Clock) -> None:
    """Remove mirrors that captures of this host have left, until cancelled.

    Those of killed agents are there at the start; one of this agent stays if ovsdb-server did not
    answer when its capture ended.
    """
    while True:
        known = _tagged(await _with_rows(facts))
        try:
            expires = await mirrors.sweep(clock.now().timestamp())
        except SwitchError as error:
            log.warning("mirrors_not_swept", error=str(error))
            await asyncio.sleep(_AGAIN)  # until ovsdb-server answers
            continue
        wait = None if expires is None else max(expires - clock.now().timestamp(), _SHORTEST)
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                while _tagged(seen := await _with_rows(facts)) == known:
                    await facts.changed(seen)


async def _with_rows(facts: Observable[SwitchFacts]) -> SwitchFacts:
    """Wait for rows."""
    while (seen := facts.value).rows is None:
        await facts.changed(seen)
    return seen


def _tagged(facts: SwitchFacts) -> frozenset[str]:
    """UUIDs of the rows that captures have made."""
    rows = facts.rows
    if rows is None:
        return frozenset()
    mirrors = (uuid for uuid, one in rows.mirrors.items() if OWNER in one.external_ids)
    ports = (uuid for uuid, one in rows.ports.items() if OWNER in one.external_ids)
    return frozenset((*mirrors, *ports))
