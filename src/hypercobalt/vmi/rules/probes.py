"""Rules about probes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import FieldCause
from hypercobalt.vmi.rules.causes import invalid, required

_HANDLERS: Final = ("exec", "guestAgentPing", "httpGet", "tcpSocket")


def probes(spec: At) -> Iterator[FieldCause]:
    """Whether each probe has one handler, and a pod network if it needs one."""
    on_pod = any(one["pod"] for one in spec["networks"])
    for name in ("readinessProbe", "livenessProbe"):
        probe = spec[name]
        if not probe:
            continue
        handlers = probe.holds(*_HANDLERS)
        if not handlers:
            yield required(probe, "must have a handler")
        elif len(handlers) > 1:
            yield invalid(probe, "must have one handler")
        for one in ("httpGet", "tcpSocket"):
            if probe[one] and not on_pod:
                yield invalid(probe[one], "needs the pod network")
