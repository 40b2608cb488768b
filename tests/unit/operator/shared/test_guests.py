"""What is known of the VirtualMachineInstances on a host, and what people are told of it."""

from __future__ import annotations

import pytest

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus, Instance
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.operator.shared.guests import (
    NO_GUESTS,
    HostGuest,
    HostGuests,
    waiting_text,
    with_reported,
)

GUEST = HostGuest("default", "a", pod="virt-launcher-a", uid="p-1", owner="v-1")


def host(*instances: Instance) -> Hypervisor:
    return Hypervisor(
        metadata=ObjectMeta(name="kvm-1"), status=HypervisorStatus(instances=instances)
    )


@pytest.mark.parametrize(
    ("known", "reports", "names"),
    [
        pytest.param(NO_GUESTS, (), (), id="neither-has-any"),
        pytest.param(
            HostGuests((GUEST,)), (), ("default/a",), id="host-that-reports-none-hides-none"
        ),
        pytest.param(
            NO_GUESTS,
            (Instance("p-2", "default_b", True, "default"),),
            ("default/b",),
            id="pod-that-the-api-lacks-counts",
        ),
        pytest.param(
            HostGuests((GUEST,)),
            (Instance("p-1", "default_other", True, "default"),),
            ("default/a",),
            id="host-does-not-rename-a-pod",
        ),
        pytest.param(
            NO_GUESTS, (Instance("i-1", "instance-1", True),), (), id="domain-of-libvirt-is-none"
        ),
    ],
)
def test_guests_are_those_that_either_side_shows(
    known: HostGuests, reports: tuple[Instance, ...], names: tuple[str, ...]
) -> None:
    assert with_reported(known, host(*reports)).names == names


def test_what_cannot_be_read_is_not_an_empty_host() -> None:
    unread = with_reported(HostGuests(unread="403 Forbidden"), host())
    assert unread.any
    assert "403 Forbidden; check that the operator may list pods" in waiting_text(unread, "kvm-1")


def test_text_names_guests_and_what_to_do() -> None:
    text = waiting_text(HostGuests((GUEST,)), "kvm-1")
    assert text == (
        "waiting for 1 VirtualMachineInstance on kvm-1: default/a; none moves by this version: "
        "stop or delete them (kubectl delete vmi -n default a)"
    )


def test_text_of_many_guests_is_short_and_counts_all() -> None:
    many = HostGuests(
        tuple(HostGuest("default", f"{number:04}", uid=f"{number}") for number in range(500))
    )
    text = waiting_text(many, "kvm-1")
    assert "500 VirtualMachineInstances" in text
    assert "and 490 more" in text
    assert len(text) < 500


def test_name_of_any_length_makes_no_long_text() -> None:
    long = HostGuests((HostGuest("n" * 5000, "m" * 5000, uid="1"),))
    assert long.names == (f"{'n' * 317}",)
    assert len(waiting_text(long, "kvm-1")) < 600


def test_host_without_guests_has_no_message_about_them() -> None:
    assert waiting_text(NO_GUESTS, "kvm-1") == ""


def test_name_that_a_pod_gives_its_owner_is_one_word_for_the_shell() -> None:
    odd = HostGuests((HostGuest("default", "a; reboot", uid="p", owner="v"),))
    assert "(kubectl delete vmi -n default 'a; reboot')" in waiting_text(odd, "kvm-1")


def test_guest_that_only_its_host_shows_is_named_by_its_pod() -> None:
    text = waiting_text(HostGuests((HostGuest("default", "a", uid="p-1"),)), "kvm-1")
    assert "(pod p-1 runs there, and the API has none: crictl pods)" in text
