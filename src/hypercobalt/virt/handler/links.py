"""The launchers of the node: a link to each, and the calls that are under way.

No pass waits for a launcher: a call runs beside the passes, and its outcome leads to the next one.
So a launcher that hangs delays nobody, not even the end of its own guest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.errors import HypercobaltError, TerminalError
from hypercobalt.logs import get_logger
from hypercobalt.runtime import Clock, key_of
from hypercobalt.virt.handler.decide import is_in_a_row
from hypercobalt.virt.handler.link import LauncherLink, LauncherPlaces
from hypercobalt.virt.handler.model import CallRecord, HandlerCall
from hypercobalt.virt.wire.client import LauncherConnection, LauncherError, LauncherRefusedError
from hypercobalt.vmi.grace import LONGEST_GRACE_SECONDS

log = get_logger(__name__)

Work = Callable[[LauncherConnection], Awaitable[None]]
_SHOWN: Final = 1024  # characters of an error that a launcher gives
_LONG_AGO: Final = timedelta(seconds=LONGEST_GRACE_SECONDS)


@dataclass
class FollowedLauncher:
    """One launcher of a VMI.

    Attributes:
        key: under which it is known, and passes are made.
        vmi: as it was last.
        pod_uid: of its pod.
        link: the way to it.
        calls: how each call went.
        stopping: when its guest was first asked to shut down, by this process or an earlier one.
        unconnectable: why its networks can never be set up; "" if they can.
    """

    key: str
    vmi: VirtualMachineInstance
    pod_uid: str
    link: LauncherLink
    following: asyncio.Task[None]
    calls: dict[HandlerCall, CallRecord] = field(default_factory=dict[HandlerCall, CallRecord])
    stopping: datetime | None = None
    unconnectable: str = ""

    @property
    def is_apart(self) -> bool:
        """Whether the name of its VMI was seen with another VMI."""
        return self.key != key_of(self.vmi)


def key_apart(vmi: VirtualMachineInstance) -> str:
    """The key of a launcher whose VMI's name may be that of another VMI."""
    return f"{key_of(vmi)}/{vmi.metadata.uid}"


class Launchers:
    """All launchers of the node, by the key of their VMI.

    Args:
        places: where they are.
        changed: called with the key of a VMI of whose launcher something new is known.
        clock: the time.
    """

    def __init__(
        self, places: LauncherPlaces, changed: Callable[[str], None], clock: Clock
    ) -> None:
        self._places, self._changed, self._clock = places, changed, clock
        self._began = clock.now(), clock.monotonic()
        self._known: dict[str, FollowedLauncher] = {}
        self._tasks = set[asyncio.Task[None]]()

    def now(self) -> datetime:
        """The time of all that is noted here, by the clock that does not step."""
        began, start = self._began
        return began + timedelta(seconds=self._clock.monotonic() - start)

    def get(self, key: str) -> FollowedLauncher | None:
        """The launcher of a VMI, if this process has begun to follow it."""
        return self._known.get(key)

    def follow(self, key: str, vmi: VirtualMachineInstance, pod_uid: str) -> FollowedLauncher:
        """The launcher of a VMI; begins to follow it, unless that is done already."""
        known = self._known.get(key)
        if known is not None and known.pod_uid == pod_uid:
            known.vmi = vmi
            return known
        self.forget(key)

        def changed() -> None:
            self._changed(found.key)

        link = LauncherLink(pod_uid, self._places, changed, self.now())
        following = self._start(link.run(), f"launcher-{key}")
        found = FollowedLauncher(key, vmi, pod_uid, link, following)
        self._known[key] = found
        return found

    def set_apart(self, key: str) -> None:
        """Follow a launcher under a key of its own: its VMI's is that of another VMI now."""
        known = self._known.pop(key, None)
        if known is not None:
            known.key = key_apart(known.vmi)
            self._known[known.key] = known
            self._changed(known.key)

    def forget(self, key: str) -> None:
        """Follow a launcher no longer."""
        known = self._known.pop(key, None)
        if known is not None:
            known.following.cancel()

    def send(self, key: str, call: HandlerCall, work: Work) -> None:
        """Have a call made to a launcher that is connected, unless it is under way."""
        launcher = self._known.get(key)
        if launcher is None or launcher.link.connection is None:
            return
        record, now = launcher.calls.get(call, CallRecord()), self.now()
        if record.under_way:
            return
        row = record.sent is not None and is_in_a_row(now - record.sent)
        tries = record.tries + 1 if row else 1
        begun = CallRecord(tries, now, under_way=True, error=record.error)
        launcher.calls[call] = begun
        if call is HandlerCall.SHUTDOWN:
            launcher.stopping = launcher.stopping or now - self._elapsed(launcher)
        log.info("calling_launcher", vmi=key, call=str(call), attempt=tries)
        made = self._make(launcher, call, work, launcher.link.connection)
        self._start(made, f"{call}-{key}")

    def _elapsed(self, launcher: FollowedLauncher) -> timedelta:
        """How long ago an earlier process has asked a guest to shut down."""
        report = launcher.link.view.report
        asked = report.shutdown_since if report is not None else None
        ago = self._clock.now() - asked if asked is not None else timedelta()
        return min(max(ago, timedelta()), _LONG_AGO)

    @contextmanager
    def process_directory(self, key: str) -> Generator[Path]:
        """A path of the directory in /proc of a VMI's launcher; see `LauncherLink`.

        Raises:
            LauncherError: it is not connected.
        """
        launcher = self._known.get(key)
        if launcher is None:
            raise LauncherError("the launcher is not followed any more")
        with launcher.link.process_directory() as path:
            yield path

    async def close(self) -> None:
        """End everything; launchers and guests go on."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._known.clear()

    async def _make(
        self,
        launcher: FollowedLauncher,
        call: HandlerCall,
        work: Work,
        connection: LauncherConnection,
    ) -> None:
        error, refused = "", False
        try:
            await work(connection)
        except LauncherError as exc:
            error = str(exc)
        except LauncherRefusedError as exc:
            error, refused = str(exc), True
        except TerminalError as exc:
            error = launcher.unconnectable = str(exc)
        except HypercobaltError as exc:
            error = str(exc)
        except Exception as exc:  # a bug in one call stays there
            log.exception("call_broke", vmi=launcher.key, call=str(call))
            error = f"fault of virt-handler: {exc!r}"
        if error:
            log.warning("call_failed", vmi=launcher.key, call=str(call), error=error)
        launcher.calls[call] = replace(
            launcher.calls[call],
            under_way=False,
            succeeded=not error,
            error=error[:_SHOWN],
            refused=refused,
        )
        self._changed(launcher.key)

    def _start(self, work: Coroutine[None, None, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
