from __future__ import annotations

from pathlib import Path, PurePosixPath

from hypercobalt.lab.agents import node_agent_unit, ovs_agent_unit
from hypercobalt.lab.disk import HIDDEN, MASKED, HostIdentity, contents, hosts_file, links

LAB = "0123456789abcdef0123456789abcdef"
A, B = HostIdentity(LAB, "kvm-1", "10.77.0.1"), HostIdentity(LAB, "kvm-2", "10.77.0.2")


def test_an_identity_is_the_same_after_a_reboot_and_no_other_hosts() -> None:
    again = HostIdentity(LAB, "kvm-1", "10.77.0.1")
    assert (again.uuid, again.machine_id) == (A.uuid, A.machine_id)
    elsewhere = HostIdentity(LAB[::-1], "kvm-1", "10.77.0.1")
    assert len({A.uuid, B.uuid, elsewhere.uuid}) == 3
    assert len({A.machine_id, B.machine_id, elsewhere.machine_id}) == 3
    assert len(A.machine_id) == 32


def test_every_host_has_the_files_of_its_identity() -> None:
    files = contents(A, 3)
    assert files["etc/hostname"] == "kvm-1\n"
    assert files["etc/default/libvirtd"] == 'LIBVIRTD_ARGS=""\n'
    assert f'host_uuid = "{A.uuid}"' in files["etc/libvirt/libvirtd.conf"]
    assert files["etc/fstab"] == ""
    assert "CPUAffinity=3\n" in files["etc/systemd/system/libvirtd.service.d/lab.conf"]


def test_host_takes_over_no_mount_and_no_unit_of_the_machine() -> None:
    assert {"etc/systemd/system", "etc/libvirt/qemu", "etc/openvswitch"} <= set(HIDDEN)
    wanted = {PurePosixPath(path).name for path in links() if ".wants/" in path}
    assert {"libvirtd.service", "libvirtd-tcp.socket", "openvswitch-switch.service"} <= wanted
    assert not wanted & set(MASKED)


def test_names_are_written_with_their_addresses() -> None:
    text = hosts_file({"api": "10.77.0.254", "kvm-1": "10.77.0.1"})
    assert text.splitlines()[-2:] == ["10.77.0.254 api", "10.77.0.1 kvm-1"]
    assert text.startswith("127.0.0.1 localhost\n")


def test_the_agent_is_started_with_its_own_kubeconfig_and_again_when_it_ends() -> None:
    unit = node_agent_unit(Path("/venv/bin/cobalt"), "kvm-1")
    assert (
        "ExecStart=/venv/bin/cobalt node-agent --kubeconfig /etc/hypercobalt/kubeconfig "
        "--node kvm-1 \\\n    --libvirt-uri qemu+tcp://127.0.0.1/system --namespace default "
        "--store-definitions \\\n    --state-dir /var/lib/hypercobalt "
        "--diagnostics-bind-address=:9187\n"
    ) in unit
    assert "Restart=always\n" in unit


def test_the_ovs_agent_has_credentials_of_its_own() -> None:
    unit = ovs_agent_unit(Path("/venv/bin/cobalt"), "kvm-1")
    assert (
        "ExecStart=/venv/bin/cobalt ovs-agent "
        "--kubeconfig /etc/hypercobalt/ovs-agent/kubeconfig --node kvm-1 \\\n"
        "    --namespace ovn-system --diagnostics-bind-address=:9188\n"
    ) in unit
    assert "Restart=always\n" in unit
