from __future__ import annotations

from hypercobalt.lab.bmc.feeds import Feeds


class Machine:
    """Counts what was done to it."""

    def __init__(self) -> None:
        self.powered, self.cut = True, 0

    def is_on(self) -> bool:
        return self.powered

    def off(self) -> None:
        self.powered, self.cut = False, self.cut + 1

    def on(self) -> None:
        self.powered = True


def test_host_loses_power_with_its_last_feed() -> None:
    machine = Machine()
    feeds = Feeds(machine, ("a", "b"))
    first, second = feeds.outlet("a"), feeds.outlet("b")
    first.off()
    assert (first.is_on(), second.is_on(), machine.powered) == (False, True, True)
    second.off()
    assert (first.is_on(), second.is_on(), machine.powered) == (False, False, False)


def test_one_feed_starts_a_host() -> None:
    machine = Machine()
    feeds = Feeds(machine, ("a", "b"))
    for name in ("a", "b"):
        feeds.outlet(name).off()
    feeds.outlet("b").on()
    assert (feeds.outlet("a").is_on(), feeds.outlet("b").is_on(), machine.powered) == (
        False,
        True,
        True,
    )


def test_feeds_are_on_while_the_host_was_switched_off_otherwise() -> None:
    machine = Machine()
    feeds = Feeds(machine, ("a", "b"))
    machine.off()
    assert feeds.outlet("a").is_on()
    assert feeds.outlet("b").is_on()


def test_person_who_starts_a_host_plugs_it_in() -> None:
    machine = Machine()
    feeds = Feeds(machine, ("a", "b"))
    for name in ("a", "b"):
        feeds.outlet(name).off()
    machine.on()
    feeds.outlet("a").off()
    assert machine.cut == 1
    assert (feeds.outlet("a").is_on(), feeds.outlet("b").is_on()) == (False, True)
