"""Health checks and metrics: what is wrong with the server, by name.

/livez fails for what a restart repairs, /readyz and /healthz for all that keeps writes waiting.
Neither needs credentials, so they name checks and counts, not objects.

Source: apiserver pkg/server/healthz.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hypercobalt.apiserver.requests.request import Request, Response
from hypercobalt.apiserver.storage.store import Store

COMMIT_SECONDS = 5.0  # a write that waits longer for the disk makes the server unready
ROOTS = ("/healthz", "/livez", "/readyz")
METRICS = "/metrics"
_TEXT = "text/plain; charset=utf-8"


class Check(NamedTuple):
    """One thing that was looked at."""

    name: str
    problem: str = ""  # empty when all is well
    note: str = ""  # what verbose answers add to that
    restart: bool = False  # whether a restart repairs it

    def line(self) -> str:
        if self.problem:
            return f"[-]{self.name} failed: {self.problem}\n"
        return f"[+]{self.name} ok{f': {self.note}' if self.note else ''}\n"


class StoreHealth:
    """Looks at a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def answer(self, request: Request) -> Response | None:
        """The answer to a health check or /metrics; None for another path."""
        if request.path == METRICS:
            return Response(200, self._metrics().encode(), "text/plain; version=0.0.4")
        root, _, name = request.path[1:].partition("/")
        if f"/{root}" not in ROOTS or request.path.endswith("/"):
            return None
        checks = [c for c in self._checks() if c.restart or root != "livez" or not c.problem]
        if name:
            checks = [check for check in checks if check.name == name]
        return _shown(root, checks, verbose="verbose" in request.query) if checks else None

    def _checks(self) -> Iterator[Check]:
        store = self._store
        yield Check("ping")
        yield Check("storage-writer", store.writer_failure, restart=True)
        waits = store.oldest_wait_seconds
        slow = f"the oldest write waits for the disk since {waits:.0f} s"
        yield Check("storage-commit", slow if waits >= COMMIT_SECONDS else "")
        full = "" if store.has_reserve else "disk full: only deletes and Leases are written"
        yield Check("storage-space", note=full)
        damaged = f"{len(store.damaged)} damaged objects are not served, see the log"
        yield Check("storage-objects", note=damaged if store.damaged else "")

    def _metrics(self) -> str:
        store = self._store
        return "".join(
            f"# HELP cobalt_apiserver_{name} {text}\n# TYPE cobalt_apiserver_{name} gauge\n"
            f"cobalt_apiserver_{name} {value:g}\n"
            for name, text, value in (
                ("storage_damaged_objects", "Objects not served.", len(store.damaged)),
                (
                    "storage_oldest_wait_seconds",
                    "Age of the oldest write that is not on disk.",
                    store.oldest_wait_seconds,
                ),
                ("storage_writer_up", "Whether writes are handled.", not store.writer_failure),
                ("storage_reserve_held", "0 while the disk is full.", store.has_reserve),
                ("storage_revision", "The newest revision.", store.revision),
            )
        )


def _shown(root: str, checks: list[Check], *, verbose: bool) -> Response:
    failed = any(check.problem for check in checks)
    if not failed and not verbose:
        return Response(200, b"ok", _TEXT)
    lines = "".join(check.line() for check in checks)
    end = f"{root} check {'failed' if failed else 'passed'}\n"
    return Response(500 if failed else 200, (lines + end).encode(), _TEXT)
