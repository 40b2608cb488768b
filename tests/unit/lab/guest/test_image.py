from __future__ import annotations

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


def test_the_cache_is_where_the_person_wants_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert image.cache_directory() == tmp_path / "hypercobalt/guest"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/ada")
    assert image.cache_directory() == Path("/home/ada/.cache/hypercobalt/guest")
