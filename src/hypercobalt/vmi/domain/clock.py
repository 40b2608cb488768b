"""The guest's clock and timers.

Source: libvirt, formatdomain, time keeping; kubevirt, as recorded.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element

from hypercobalt.api.kubevirt.machine import ClockSpec, TimerSpec, TimersSpec
from hypercobalt.vmi.domain.elements import element, yes
from hypercobalt.vmi.unfit import UnfitVMIError


def clock_element(spec: ClockSpec | None) -> Element | None:
    """The element `clock`; None leaves the clock to libvirt, which then follows UTC.

    Raises:
        UnfitVMIError: the time zone is a path: QEMU's C library would read that file.
    """
    if spec is None:
        return None
    timers = _timers(spec.timer or TimersSpec())
    if spec.utc is not None:
        seconds = spec.utc.offsetSeconds
        shift = "reset" if seconds is None else str(seconds)
        return element("clock", *timers, offset="utc", adjustment=shift)
    if spec.timezone:
        return element("clock", *timers, offset="timezone", timezone=_zone(spec.timezone))
    return element("clock", *timers, offset="utc")  # libvirt's default, which its schema wants


def _zone(name: str) -> str:
    if name.startswith(("/", ":")) or ".." in name:
        raise UnfitVMIError("spec.domain.clock.timezone", f"{name[:64]!r} is no name of a zone")
    return name


def _timers(spec: TimersSpec) -> list[Element]:
    named = {
        "rtc": spec.rtc,
        "pit": spec.pit,
        "kvmclock": spec.kvm,
        "hpet": spec.hpet,
        "hypervclock": spec.hyperv,
    }
    return [_timer(name, timer) for name, timer in named.items() if timer is not None]


def _timer(name: str, spec: TimerSpec) -> Element:
    return element(
        "timer",
        name=name,
        present=yes(so=spec.present is not False),
        tickpolicy=spec.tickPolicy or None,
        track=spec.track or None,
    )
