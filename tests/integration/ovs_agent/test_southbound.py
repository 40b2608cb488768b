"""The southbound database as a chassis reaches it: over TLS, and under a name of its own."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from tests.integration.ovs.central import SOUTHBOUND, TLS, Central
from tests.integration.ovs.daemons import OVN_CONTROLLER, Daemons
from tests.integration.ovs_agent.conftest import judged

CONTROLLER = "OVNControllerConnected"
REMOTE = f"{TLS.replace(':', ':127.0.0.1:')}"


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def secured(
    running_central: Central, daemons: Daemons, authority: trustme.CA
) -> Iterator[tuple[Central, tuple[str, ...]]]:
    """A southbound database behind TLS; key, certificate and authority of its clients."""
    del daemons
    files = running_central.serve_tls(authority)
    with running_central.namespace.entered():
        yield running_central, files
    running_central.resume(SOUTHBOUND)
    running_central.appctl(SOUTHBOUND, "ovsdb-server/remove-remote", f"p{TLS}:127.0.0.1")
    running_central.daemons.vsctl("del-ssl")
    running_central.leave()


async def test_southbound_database_behind_tls_that_hangs_shows(
    secured: tuple[Central, tuple[str, ...]],
) -> None:
    central, files = secured
    central.daemons.vsctl("set-ssl", *files)
    central.join(remote=REMOTE)
    async with judged(central.daemons) as watched:
        healthy = await watched.condition(CONTROLLER, "True/Connected")
        began = time.monotonic()
        central.stop(SOUTHBOUND)
        await watched.condition(CONTROLLER, "False/SBStale")
        assert time.monotonic() - began <= 30.0
        central.resume(SOUTHBOUND)
        await watched.condition(CONTROLLER, "True/Connected")
        await watched.condition("FlowsInSync", "True/InSync")
    assert healthy.status.ovnController is not None
    assert healthy.status.ovnController.sbConnection == REMOTE


async def test_unreadable_key_of_the_options_is_the_reason_and_nothing_is_healthy(
    secured: tuple[Central, tuple[str, ...]], tmp_path: Path
) -> None:
    central, (of_server, certificate, authority) = secured
    key = Path(shutil.copy(of_server, tmp_path / "key.pem"))
    central.join("-p", str(key), f"-c{certificate}", f"--ca-cert={authority}", remote=REMOTE)
    async with judged(central.daemons) as watched:
        await watched.condition(CONTROLLER, "True/Connected")
        key.unlink()
        blind = await watched.condition(CONTROLLER, "Unknown/SBNotProbed")
        ready = await watched.condition("Ready", "Unknown/Stale")
    stated = next(one for type_, one in blind.conditions.items() if type_ == CONTROLLER)
    assert f"private key {key} cannot be read: No such file or directory" in stated.message
    assert ready.status.ovnController is not None
    assert ready.status.ovnController.connected is None


@pytest.mark.parametrize("by_file", [True, False], ids=["system-id-override", "-n"])
async def test_chassis_has_the_name_that_ovn_controller_was_started_with(
    running_central: Central, daemons: Daemons, by_file: bool
) -> None:
    central, name = running_central, "kvm-other"
    file = daemons.folder / "system-id-override"
    if by_file:
        file.write_text(f"{name}\n")
    daemons.vsctl(
        *("set", "Open_vSwitch", ".", "external_ids:system-id=kvm-1"),
        *("external_ids:ovn-remote=tcp:127.0.0.1:1", "external_ids:ovn-encap-type=stt"),
        *(f"external_ids:ovn-remote-{name}={central.remote}", "external_ids:ovn-encap-ip=10.0.0.9"),
        *(f"external_ids:ovn-encap-ip-{name}=127.0.0.2", f"external_ids:ovn-bridge-{name}=br-own"),
        *(f"external_ids:ovn-encap-type-{name}=geneve", "external_ids:ovn-bridge-mappings=a:br-a"),
        f"external_ids:ovn-bridge-mappings-{name}=lab:br-lab,wan:br-own",
        f"external_ids:ovn-bridge-datapath-type-{name}=netdev",
    )
    try:
        daemons.start(OVN_CONTROLLER, *(() if by_file else ("-n", name)))
        central.sbctl("wait-until", "Chassis", name)
        central.synchronize()
        async with judged(daemons) as watched:
            found = await watched.condition(CONTROLLER, "True/Connected")
            await watched.condition("FlowsInSync", "True/InSync")
    finally:
        file.unlink(missing_ok=True)
        daemons.kill(OVN_CONTROLLER)  # it would register itself again
        central.sbctl("--if-exists", "chassis-del", name)
    shown = found.status.ovnController
    assert shown is not None
    assert (shown.chassisId, shown.sbConnection) == (name, central.remote)
    assert (shown.encapIP, shown.encapType) == ("127.0.0.2", "geneve")
    assert [(one.network, one.bridge) for one in shown.bridgeMappings] == [
        ("lab", "br-lab"),
        ("wan", "br-own"),
    ]
    assert [one.name for one in found.status.bridges if one.status == "Active"] == ["br-own"]
