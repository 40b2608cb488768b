"""Certificates of a running server."""

from __future__ import annotations

import asyncio
import io
from datetime import timedelta
from pathlib import Path

import pytest

from hypercobalt.apiserver.access.renewal import keeping_current
from hypercobalt.errors import ConfigurationError
from hypercobalt.pki import Pair, Pki

DAY = timedelta(days=1)


def files(serial: int) -> Pki:
    return Pki(Path("pki"), b"ca", Pair(b"%d" % serial, b"key"))


@pytest.mark.looptime
async def test_renewed_certificates_are_put_into_use_once(written_logs: io.StringIO) -> None:
    found: list[Pki | ConfigurationError] = [
        files(1),
        ConfigurationError("the disk is full"),
        files(2),
        files(2),
    ]
    used: list[Pki] = []

    def prepare() -> Pki:
        one = found.pop(0)
        if isinstance(one, ConfigurationError):
            raise one
        return one

    async with keeping_current(files(1), every=DAY, prepare=prepare, use=used.append):
        await asyncio.sleep(2.5 * DAY.total_seconds())
        assert used == []
        await asyncio.sleep(2 * DAY.total_seconds())
    assert (used, found) == ([files(2)], [])
    assert "the disk is full" in written_logs.getvalue()


@pytest.mark.looptime
async def test_certificate_that_could_not_be_used_is_tried_again() -> None:
    tries: list[Pki] = []

    def use(renewed: Pki) -> None:
        tries.append(renewed)
        if len(tries) == 1:
            raise ConfigurationError("the kubeconfig cannot be written")

    async with keeping_current(files(1), every=DAY, prepare=lambda: files(2), use=use):
        await asyncio.sleep(5.5 * DAY.total_seconds())
    assert tries == [files(2), files(2)]
