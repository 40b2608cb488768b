from __future__ import annotations

from dataclasses import replace

import pytest

from hypercobalt.lab.machine.preflight import MIB, PACKAGES, Demand, Machine, Readiness, decide

ABLE = Machine(
    root=True,
    debian=True,
    packages=frozenset(PACKAGES),
    overlay="",
    network="",
    cgroups=True,
    fuse=True,
    kvm=True,
    tun=True,
    bridge_filter=False,
    memory_bytes=8192 * MIB,
    disk_bytes=8192 * MIB,
    mounts=frozenset({"/", "/proc", "/home"}),
)


def judge(machine: Machine, hosts: int = 3, guests: int = 6) -> Readiness:
    return decide(machine, Demand(hosts, guests))


def test_a_machine_with_everything_boots_hosts_as_it_is() -> None:
    assert judge(ABLE) == Readiness()
    assert judge(ABLE).can_boot


@pytest.mark.parametrize(
    ("machine", "what", "remedy"),
    [
        pytest.param(replace(ABLE, root=False), "root rights are missing", "sudo", id="no root"),
        pytest.param(
            replace(ABLE, overlay="mount: unknown filesystem type"),
            "no overlay can be mounted over the root file system: mount: unknown",
            "overlayfs",
            id="no overlay",
        ),
        pytest.param(
            replace(ABLE, network="RTNETLINK answers: Not supported"),
            "no network of hosts can be made: RTNETLINK",
            "bridge and veth devices",
            id="no bridge",
        ),
        pytest.param(
            replace(ABLE, cgroups=False), "control groups", "--privileged", id="no cgroups"
        ),
        pytest.param(replace(ABLE, fuse=False), "/dev/fuse is missing", "modprobe", id="no fuse"),
        pytest.param(replace(ABLE, tun=False), "/dev/net/tun", "modprobe", id="no tun"),
        pytest.param(
            replace(ABLE, mounts=frozenset({"/", "/var", "/usr"})),
            "/usr, /var has a file system of its own",
            "one file system",
            id="split system",
        ),
        pytest.param(
            replace(ABLE, memory_bytes=1024 * MIB),
            "2376 MiB of memory are needed for 3 hosts and 6 VMs, 1024 MiB are available",
            "--hosts and --vms",
            id="little memory",
        ),
        pytest.param(
            replace(ABLE, disk_bytes=100 * MIB),
            "500 MiB of disk are needed, 100 MiB are free",
            "--data",
            id="little disk",
        ),
        pytest.param(
            replace(ABLE, debian=False, packages=frozenset(PACKAGES[1:])),
            "this is not Debian or Ubuntu",
            f"equivalents of these Debian packages: {PACKAGES[0]}",
            id="another distribution",
        ),
    ],
)
def test_missing_requirement_is_reported_with_its_remedy(
    machine: Machine, what: str, remedy: str
) -> None:
    readiness = judge(machine)
    assert not readiness.can_boot
    (lack,) = (*readiness.lacks, *readiness.shortages)
    assert what in lack.what
    assert remedy in lack.remedy


def test_missing_packages_are_installed_and_need_room() -> None:
    bare = replace(ABLE, packages=frozenset({"dbus"}))
    assert judge(bare).can_boot
    assert set(judge(bare).install) == set(PACKAGES) - {"dbus"}

    full = replace(bare, disk_bytes=1000 * MIB)
    assert "2000 MiB of disk are needed" in judge(full).shortages[0].what


def test_fewer_hosts_fit_into_less_memory() -> None:
    small = replace(ABLE, memory_bytes=512 * MIB)
    assert not judge(small).can_boot
    assert judge(small, hosts=1, guests=0).can_boot


def test_an_openstack_and_its_computes_need_memory_of_their_own() -> None:
    small = replace(ABLE, memory_bytes=3000 * MIB)
    assert decide(small, Demand(3, 0)).can_boot
    (lack,) = decide(small, Demand(3, 0, openstack=True)).shortages
    assert "4370 MiB of memory are needed for 3 hosts and 0 VMs" in lack.what


def test_a_lab_that_runs_needs_nothing_more() -> None:
    full = replace(ABLE, memory_bytes=MIB, disk_bytes=MIB)
    assert decide(full, Demand(0, 0, base=False, is_new=False)).can_boot

    (lack,) = decide(full, Demand(1, 2, base=False, is_new=False)).shortages
    assert "692 MiB of memory are needed for 1 hosts and 2 VMs, 1 MiB are available" in lack.what
    assert "host remove" in lack.remedy


def test_without_kvm_guests_are_slower_and_hosts_boot() -> None:
    readiness = judge(replace(ABLE, kvm=False))
    assert readiness.can_boot
    assert "TCG" in readiness.notes[0]


def test_a_filter_on_bridged_frames_is_pointed_at() -> None:
    readiness = judge(replace(ABLE, bridge_filter=True))
    assert readiness.can_boot
    assert "bridge-nf-call-iptables" in readiness.notes[0]


def test_check_that_needs_root_reports_nothing_without_it() -> None:
    machine = replace(ABLE, root=False, overlay="denied", network="denied", cgroups=False)
    assert len(judge(machine).lacks) == 1


def test_without_ip_the_network_is_judged_after_installation() -> None:
    machine = replace(ABLE, packages=ABLE.packages - {"iproute2"}, network="ip: not found")
    assert judge(machine).can_boot
