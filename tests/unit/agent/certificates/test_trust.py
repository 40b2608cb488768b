"""Which CA may be installed on a host."""

from __future__ import annotations

import base64

import pytest

from hypercobalt.agent.certificates.trust import certificates, foreign


def pem(*contents: str, width: int = 64, text: str = "") -> bytes:
    blocks = list[str]()
    for one in contents:
        body = base64.b64encode(one.encode() * 40).decode()
        lines = [body[at : at + width] for at in range(0, len(body), width)]
        wrapped = "\n".join(lines)
        head, tail = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
        blocks.append(f"{text}{head}\n{wrapped}\n{tail}\n")
    return "".join(blocks).encode()


@pytest.mark.parametrize(
    ("offered", "installed", "configured", "trusted"),
    [
        pytest.param(pem("a"), None, None, True, id="the first one"),
        pytest.param(pem("a"), b"", None, True, id="the first one, over an empty file"),
        pytest.param(pem("a"), b"damaged", None, True, id="over a file without any"),
        pytest.param(pem("a"), pem("a"), None, True, id="the same"),
        pytest.param(pem("a", width=76, text="# a"), pem("a"), None, True, id="wrapped otherwise"),
        pytest.param(pem("a"), pem("a", "b"), None, True, id="one of those"),
        pytest.param(pem("b"), pem("a"), None, False, id="another"),
        pytest.param(pem("a", "b"), pem("a"), None, False, id="one more"),
        pytest.param(b"", pem("a"), None, False, id="none"),
        pytest.param(b"no PEM", pem("a"), None, False, id="nothing that is one"),
        pytest.param(pem("b"), pem("a"), pem("a", "b"), True, id="a new one that is configured"),
        pytest.param(pem("a"), pem("a"), pem("b"), False, id="one that is configured no more"),
        pytest.param(pem("a"), None, pem("b"), False, id="the first one, not configured"),
        pytest.param(pem("a"), None, b"", False, id="an empty configuration trusts none"),
    ],
)
def test_ca_is_the_administrators_or_the_one_in_place(
    offered: bytes, installed: bytes | None, configured: bytes | None, *, trusted: bool
) -> None:
    assert (not foreign(offered, installed, configured)) is trusted


def test_certificates_are_compared_by_their_content() -> None:
    assert certificates(pem("a", "a", width=10)) == certificates(pem("a"))
    assert certificates(pem("a")) != certificates(pem("b"))
    assert len(certificates(pem("a", "b", text="subject=a\n"))) == 2
