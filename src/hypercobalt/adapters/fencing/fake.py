"""A fence device in memory, for tests."""

from __future__ import annotations

from datetime import timedelta

from hypercobalt.adapters.fencing.port import FenceError, PowerState


class FakeFenceDevice:
    """A device whose host is switched at once.

    Attributes:
        alternative: see `FenceDevice`.
        state: of the host's power; what `power` reports.
        orders: `off` and `on`, in order.
        failure: raised by every call while it is set.
        uuids: what `systems` reports.
    """

    def __init__(
        self,
        name: str = "fake 192.0.2.1",
        state: PowerState = PowerState.ON,
        *,
        alternative: str = "",
    ) -> None:
        self._name, self.alternative, self.connection = name, alternative, name
        self.state = state
        self.orders: list[PowerState] = []
        self.failure: FenceError | None = None
        self.uuids: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        return self._name

    async def systems(self, *, within: timedelta) -> frozenset[str]:
        del within
        self._check()
        return self.uuids

    async def power(self, *, within: timedelta) -> PowerState:
        del within
        self._check()
        return self.state

    async def off(self, *, within: timedelta) -> None:
        self._switch(PowerState.OFF, within)

    async def on(self, *, within: timedelta) -> None:
        self._switch(PowerState.ON, within)

    def _switch(self, state: PowerState, within: timedelta) -> None:
        del within
        self.orders.append(state)
        self._check()
        self.state = state

    def _check(self) -> None:
        if self.failure:
            raise self.failure
