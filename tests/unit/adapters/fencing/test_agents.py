"""The adapter over a fence agent of ours, which does what a real one does on its standard input."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from hypercobalt.adapters.fencing.agents import AgentDevice
from hypercobalt.adapters.fencing.devices import Device
from hypercobalt.adapters.fencing.port import Credentials, FenceError, FenceFailure, PowerState

NO_OUTLET = "Failed: Unable to obtain correct plug status or plug is not available"
WITHIN = timedelta(seconds=20)

AGENT = f"""#!{sys.executable}
import os, pathlib, sys, time
folder = pathlib.Path(__file__).parent
given = dict(line.rstrip("\\n").split("=", 1) for line in sys.stdin)
with open(folder / "calls", "a") as calls:
    calls.write(f"{{given}} {{sys.argv[1:]}} {{os.environ.get('IPMITOOL_PASSWORD')}}\\n")
state, action = folder / "state", given["action"]
exec((folder / "behaviour").read_text())
if action != "status":
    state.write_text(action)
    sys.exit(0)
now = state.read_text()
print("Status: " + now.upper())
sys.exit(2 if now == "off" else 0)
"""


class Stub:
    """A fence agent in a folder, with the state of its device."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("fence_stub", "fence_ipmilan"):
            (folder / name).write_text(AGENT)
            (folder / name).chmod(0o755)
        self.behave("")
        self.state = "on"

    def behave(self, code: str) -> None:
        (self.folder / "behaviour").write_text(code)

    @property
    def state(self) -> str:
        return (self.folder / "state").read_text()

    @state.setter
    def state(self, value: str) -> None:
        (self.folder / "state").write_text(value)

    @property
    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()

    def device(self, agent: str = "fence_stub") -> AgentDevice:
        device = Device("bmc", agent, {"ip": "192.0.2.7"})
        return AgentDevice(device, Credentials("admin", "s3cret"), str(self.folder))


@pytest.fixture
def stub(tmp_path: Path) -> Stub:
    return Stub(tmp_path)


@pytest.mark.parametrize("state", PowerState)
async def test_the_state_is_read(stub: Stub, state: PowerState) -> None:
    stub.state = state.value
    assert await stub.device().power(within=WITHIN) is state


async def test_order_is_one_call_of_the_agent_which_reads_the_state_itself(stub: Stub) -> None:
    await stub.device().off(within=WITHIN)
    assert stub.state == "off"
    await stub.device().on(within=WITHIN)
    assert stub.state == "on"
    assert len(stub.calls) == 2


async def test_order_that_the_agent_does_not_carry_out_fails(stub: Stub) -> None:
    stub.behave("if action == 'off': sys.exit(1)")
    with pytest.raises(FenceError, match="off: exit code 1"):
        await stub.device().off(within=WITHIN)


@pytest.mark.parametrize("code", [1, 2])
async def test_a_failure_has_the_agents_own_words_without_the_password(
    stub: Stub, code: int
) -> None:
    problem = "ERROR: Unable to login as admin:s3cret\\n\\nERROR: Please use '-h' for usage"
    stub.behave(f'print("{problem}", file=sys.stderr); sys.exit({code})')
    with pytest.raises(FenceError) as failed:
        await stub.device().power(within=WITHIN)
    text = f"bmc 192.0.2.7: status: exit code {code}: Unable to login as admin:[password]"
    assert (str(failed.value), failed.value.failure) == (text, FenceFailure.FAILED)


@pytest.mark.parametrize(
    ("agent", "problem", "failure"),
    [
        ("stub", "Failed: You have to set login password", FenceFailure.REFUSED),
        ("stub", "Unable to get PowerState: https://192.0.2.7:443/redfish", FenceFailure.REFUSED),
        ("stub", "Failed: The user does not have the correct privileges", FenceFailure.REFUSED),
        ("stub", NO_OUTLET, FenceFailure.REFUSED),
        ("ipmilan", NO_OUTLET, FenceFailure.FAILED),
        ("ipmilan", "Error: RAKP 2 HMAC is invalid", FenceFailure.REFUSED),
        ("stub", "Connection timed out", FenceFailure.TIMED_OUT),
        ("stub", "Connection lost", FenceFailure.TIMED_OUT),
        ("stub", "Unable to connect/login to fencing device", FenceFailure.FAILED),
    ],
)
async def test_refusal_is_distinguished_from_an_answer_that_does_not_come(
    stub: Stub, agent: str, problem: str, failure: FenceFailure
) -> None:
    stub.behave(f'print("ERROR: {problem}", file=sys.stderr); sys.exit(1)')
    with pytest.raises(FenceError) as failed:
        await stub.device(f"fence_{agent}").power(within=WITHIN)
    assert failed.value.failure is failure


async def test_a_state_that_is_claimed_with_the_wrong_exit_code_is_no_state(stub: Stub) -> None:
    stub.behave("print('Status: OFF'); sys.exit(1)")
    with pytest.raises(FenceError):
        await stub.device().power(within=WITHIN)


async def test_a_program_that_hangs_is_given_up_at_the_deadline(stub: Stub) -> None:
    stub.behave("time.sleep(600)")
    with pytest.raises(FenceError, match=r"no answer within 0\.5 s") as failed:
        await stub.device().power(within=timedelta(seconds=0.5))
    assert failed.value.failure is FenceFailure.TIMED_OUT


async def test_a_program_that_is_given_up_is_killed_with_its_children(stub: Stub) -> None:
    stub.behave(
        "import subprocess; child = subprocess.Popen(['/bin/sleep', '600'])\n"
        "(folder / 'new').write_text(str(child.pid)); (folder / 'new').rename(folder / 'child')\n"
        "time.sleep(600)"
    )
    reading = asyncio.create_task(stub.device().power(within=WITHIN))
    async with asyncio.timeout(10):
        while not (stub.folder / "child").exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    async with asyncio.timeout(10):
        await _ended(int((stub.folder / "child").read_text()))


async def _ended(pid: int) -> None:
    while True:
        try:
            if ") Z " in Path(f"/proc/{pid}/stat").read_text():
                return
        except OSError:
            return
        await asyncio.sleep(0)


async def test_no_secret_is_in_a_programs_arguments(stub: Stub) -> None:
    await stub.device().power(within=WITHIN)
    (call,) = stub.calls
    assert "'password': 's3cret'" in call
    assert call.endswith("[] None")


async def test_ipmitool_gets_the_password_by_its_environment(stub: Stub) -> None:
    await stub.device("fence_ipmilan").power(within=WITHIN)
    (call,) = stub.calls
    assert "'password'" not in call
    assert "'ipmitool_timeout': '2 -E'" in call
    assert call.endswith("[] s3cret")


async def test_a_program_that_is_missing_names_the_package(tmp_path: Path) -> None:
    device = AgentDevice(Device("bmc", "fence_none", {}), Credentials(), str(tmp_path))
    with pytest.raises(FenceError, match="install the package fence-agents"):
        await device.power(within=WITHIN)


IPMITOOL = f"""#!{sys.executable}
import os, pathlib, sys
folder = pathlib.Path(__file__).parent
with open(folder / "calls", "a") as calls:
    calls.write(f"{{sys.argv[1:]}} {{os.environ.get('IPMITOOL_PASSWORD')}}\\n")
print((folder / "guid").read_text())
sys.exit(int((folder / "code").read_text()))
"""
SENT = " 44 45 4c 4c 35 00 10 4d 80 46 b7 c0 4f 4a 37 32\n"


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        (
            SENT,
            {
                "44454c4c-3500-104d-8046-b7c04f4a3732",
                "4c4c4544-0035-4d10-8046-b7c04f4a3732",
                "32374a4f-c0b7-4680-4d10-00354c4c4544",
            },
        ),
        (" 00" * 16, set[str]()),
        (" ff" * 16, set[str]()),
        (" 44 45", set[str]()),
        ("Unable to send RAW command", set[str]()),
    ],
)
async def test_ipmi_leaves_the_order_of_a_uuids_bytes_open(
    tmp_path: Path, printed: str, expected: set[str]
) -> None:
    (tmp_path / "ipmitool").write_text(IPMITOOL)
    (tmp_path / "ipmitool").chmod(0o755)
    (tmp_path / "guid").write_text(printed)
    (tmp_path / "code").write_text("0")
    known = Device("bmc", "fence_ipmilan", {"ip": "192.0.2.7", "ipport": "700", "lanplus": "1"})
    device = AgentDevice(known, Credentials("admin", "s3cret"), str(tmp_path))
    assert await device.systems(within=WITHIN) == expected
    call = (tmp_path / "calls").read_text().strip()
    assert call.endswith("s3cret")
    assert "s3cret" not in call.removesuffix("s3cret")
    assert "'-I', 'lanplus', '-H', '192.0.2.7', '-p', '700', '-U', 'admin'" in call
    assert "'-E', 'raw', '0x06', '0x37'" in call


async def test_ipmi_that_refuses_reports_no_uuid(tmp_path: Path) -> None:
    (tmp_path / "ipmitool").write_text(IPMITOOL)
    (tmp_path / "ipmitool").chmod(0o755)
    (tmp_path / "guid").write_text("")
    (tmp_path / "code").write_text("1")
    device = AgentDevice(
        Device("bmc", "fence_ipmilan", {"ip": "192.0.2.7"}), Credentials(), str(tmp_path)
    )
    with pytest.raises(FenceError, match="UUID of the system: exit code 1"):
        await device.systems(within=WITHIN)


async def test_a_device_of_another_kind_reports_no_uuid(stub: Stub) -> None:
    assert await stub.device().systems(within=WITHIN) == frozenset()
    assert not (stub.folder / "calls").exists()


async def test_the_authority_of_a_device_is_given_to_its_agent(stub: Stub) -> None:
    stub.behave(
        "(folder / 'bundle').write_text(open(os.environ['REQUESTS_CA_BUNDLE']).read())\n"
        "(folder / 'where').write_text(os.environ['REQUESTS_CA_BUNDLE'])"
    )
    known = Device("bmc", "fence_stub", {}, authority="-----BEGIN CERTIFICATE-----")
    await AgentDevice(known, Credentials(), str(stub.folder)).power(within=WITHIN)
    assert (stub.folder / "bundle").read_text() == known.authority
    assert not Path((stub.folder / "where").read_text()).exists()
