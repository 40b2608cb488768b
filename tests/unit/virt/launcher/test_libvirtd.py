"""Where the daemon of a pod has its files, and what it may use."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypercobalt.errors import ConfigurationError
from hypercobalt.virt.launcher import libvirtd
from hypercobalt.virt.launcher.libvirtd import DaemonPlace, SessionDaemon, socket_directory
from hypercobalt.virt.launcher.settings import LauncherSettings, decode_settings, encode_settings
from hypercobalt.vmi.paths import PodPaths


def place(tmp_path: Path) -> DaemonPlace:
    paths = PodPaths(private=f"{tmp_path}/private", runtime=f"{tmp_path}/run/libvirt")
    return DaemonPlace.within(paths)


def test_daemon_has_the_driver_of_qemu_alone_and_no_bus(tmp_path: Path) -> None:
    here = place(tmp_path)
    for _ in range(2):
        SessionDaemon(here, Path("/usr/lib/drivers"))
    environment = here.environment()
    drivers = Path(environment["LIBVIRT_DRIVER_DIR"])
    assert {one.name: str(one.readlink()) for one in drivers.iterdir()} == {
        "libvirt_driver_qemu.so": "/usr/lib/drivers/libvirt_driver_qemu.so"
    }
    assert environment["XDG_RUNTIME_DIR"] == f"{tmp_path}/run"
    assert "nonexistent" in environment["DBUS_SYSTEM_BUS_ADDRESS"]
    assert "nonexistent" in environment["DBUS_SESSION_BUS_ADDRESS"]
    assert 'stdio_handler = "file"' in (here.configuration / "qemu.conf").read_text()
    daemon = (here.configuration / "daemon.conf").read_text()
    assert "listen_tcp" not in daemon


def test_each_pod_is_a_host_of_its_own_to_libvirt(tmp_path: Path) -> None:
    found: set[str] = set()
    for name in ("a", "b"):
        here = place(tmp_path / name)
        SessionDaemon(here, Path("/usr/lib/drivers"))
        found.add((here.configuration / "daemon.conf").read_text().splitlines()[0])
    assert len(found) == 2


@pytest.mark.parametrize(
    ("installed", "socket"),
    [
        ({"virtqemud", "libvirtd"}, "virtqemud-sock"),
        ({"libvirtd"}, "libvirt-sock"),
    ],
)
def test_daemon_for_qemu_alone_is_taken_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: set[str], socket: str
) -> None:
    monkeypatch.setattr(libvirtd, "_installed", lambda program: program in installed)
    daemon = SessionDaemon(place(tmp_path), Path("/usr/lib/drivers"))
    assert daemon.uri == f"qemu+unix:///session?socket={tmp_path}/run/libvirt/{socket}"


def test_machine_without_libvirt_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libvirtd, "_installed", lambda _: False)
    with pytest.raises(ConfigurationError, match="none of virtqemud, libvirtd is installed"):
        SessionDaemon(place(tmp_path), Path("/usr/lib/drivers"))


def test_runtime_directory_must_have_the_name_that_libvirt_wants() -> None:
    with pytest.raises(ConfigurationError, match="must be `libvirt`"):
        DaemonPlace.within(PodPaths(runtime="/run/other"))


def test_sockets_of_the_guest_are_for_the_pod_alone(tmp_path: Path) -> None:
    paths = PodPaths(private=str(tmp_path))
    for _ in range(2):
        made = socket_directory(paths, "5f774ae2")
        assert made == tmp_path / "5f774ae2"
        assert made.stat().st_mode & 0o777 == 0o700


def test_settings_are_read_as_written() -> None:
    settings = LauncherSettings(
        namespace="lab", name="guest", uid="u", handlers=(0, 7), paths=PodPaths(private="/p")
    )
    assert decode_settings(encode_settings(settings)) == settings
    for text in ("", "{}", "[]", '{"namespace":"a","name":"b","uid":3}'):
        with pytest.raises(ConfigurationError):
            decode_settings(text)
