from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from hypercobalt.lab.errors import LabError
from hypercobalt.lab.guest import image
from hypercobalt.lab.guest.image import Package

PRINTED = """\
'http://mirror/pool/k.deb' linux-image-6.1.0-50-amd64_6.1.170-1_amd64.deb 70550672 SHA256:{one}
'http://mirror/pool/b.deb' busybox-static_1%3a1.35.0-4_amd64.deb 928188 SHA256:{two}
""".format(one="1" * 64, two="2" * 64)


def test_packages_are_read_from_apt() -> None:
    assert image.parse_uris(("linux-image-6.1.0-50-amd64", "busybox-static"), PRINTED) == (
        Package(
            "linux-image-6.1.0-50-amd64",
            "linux-image-6.1.0-50-amd64_6.1.170-1_amd64.deb",
            "1" * 64,
        ),
        Package("busybox-static", "busybox-static_1%3a1.35.0-4_amd64.deb", "2" * 64),
    )


@pytest.mark.parametrize("printed", ["", PRINTED.replace("SHA256", "MD5Sum"), "'a' b c\n"])
def test_a_package_without_checksum_is_refused(printed: str) -> None:
    with pytest.raises(LabError, match="busybox-static; run `apt-get update`"):
        image.parse_uris(("busybox-static",), printed)


def test_an_image_is_deleted_after_a_month_without_use(tmp_path: Path) -> None:
    month = 30 * 86400
    for name, age in (("new", 0), ("used", month - 60), ("old", month + 60)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "vmlinux").touch()
        (tmp_path / f"note-{name}").touch()
        for entry in (tmp_path / name, tmp_path / f"note-{name}"):
            then = time.time() - age
            os.utime(entry, (then, then))

    image.prune(tmp_path)

    left = sorted(entry.name for entry in tmp_path.iterdir())
    assert left == ["new", "note-new", "note-used", "used"]


def test_the_cache_is_where_the_environment_names_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert image.cache_directory() == tmp_path / "hypercobalt/guest"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/ada")
    assert image.cache_directory() == Path("/home/ada/.cache/hypercobalt/guest")
