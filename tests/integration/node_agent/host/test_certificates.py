"""From what an issuer gives to files on the host, and the condition about it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import pytest
import trustme
from msgspec.structs import replace
from tests.integration.node_agent.host.certificates import (
    AUTHORITY,
    DATA,
    FromSecret,
    data,
    host_units,
    of,
    of_another_ca,
)
from tests.integration.node_agent.host.conftest import (
    DEADLINE,
    NAMESPACE,
    NODE,
    Site,
    create_hypervisor,
)

from hypercobalt.adapters.host.fake import FakeUnits
from hypercobalt.adapters.host.model import UnitState
from hypercobalt.adapters.host.port import HostError
from hypercobalt.api.certificate import Certificate
from hypercobalt.api.core import Secret
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import Object, ObjectMeta
from hypercobalt.node_agent.host.tls_files import LIBVIRT_UNIT, UPDATE_UNIT, installer, layout
from hypercobalt.runtime import Kube

pytestmark = pytest.mark.asyncio(loop_scope="module")

T = TypeVar("T", bound=Object)

TYPE = "TLSCertificateInstalled"


def expired() -> trustme.LeafCert:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    return AUTHORITY.issue_cert(NODE, "192.0.2.1", not_after=yesterday)


def is_empty(directory: Path) -> bool:
    return not list(directory.iterdir())


async def put_secret(kube: Kube, content: dict[str, bytes], namespace: str = NAMESPACE) -> Secret:
    meta = ObjectMeta(name=f"tls-libvirt-{NODE}", namespace=namespace)
    present = await kube.get(Secret, meta.name, namespace)
    if present is None:
        return await kube.create(Secret(metadata=meta, data=content, type="Opaque"))
    return await kube.patch(present, replace(present, data=content))


def begin(
    site: Site,
    root: Path,
    units: FakeUnits,
    *,
    resync: timedelta = timedelta(minutes=5),
    ca: Path | None = None,
) -> None:
    concern = FromSecret(
        installer(root, units, site.board, ca),
        site.hypervisor,
        site.secret,
        addresses=("192.0.2.1", "no address"),
        resync=resync,
    )
    site.start(concern.run)


def is_loaded(root: Path, content: dict[str, bytes]) -> bool:
    return layout(root).is_loaded(layout(root).plan(content))


async def test_a_secret_is_installed_and_libvirt_notified(
    kube: Kube, site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    units = host_units()
    await create_hypervisor(kube)
    begin(site, tmp_path / "pki", units)
    await put_secret(kube, DATA)

    ready = await site.until(TYPE, "Ready")

    assert (ready.status, ready.message) == ("True", f"Secret tls-libvirt-{NODE} is installed")
    assert is_loaded(tmp_path / "pki", DATA)
    assert units.jobs == [f"start {UPDATE_UNIT}"]
    assert "PRIVATE" not in caplog.text


async def test_a_renewed_secret_replaces_the_old_one(
    kube: Kube, site: Site, tmp_path: Path
) -> None:
    units = host_units()
    await create_hypervisor(kube)
    await put_secret(kube, DATA)
    begin(site, tmp_path, units)
    await site.until(TYPE, "Ready")
    notified = asyncio.Event()
    units.on_job = lambda _: notified.set()

    renewed = data()
    await put_secret(kube, renewed)

    async with asyncio.timeout(DEADLINE):
        await notified.wait()
    await site.until(TYPE, "Ready")
    assert is_loaded(tmp_path, renewed)


@pytest.mark.parametrize("configured", [False, True], ids=["pinned by use", "by its file"])
async def test_certificate_of_a_foreign_ca_is_not_installed_with_that_ca(
    kube: Kube, site: Site, tmp_path: Path, *, configured: bool
) -> None:
    root, ca = tmp_path / "pki", tmp_path / "ca.crt"
    ca.write_bytes(DATA["ca.crt"])
    await create_hypervisor(kube)
    await put_secret(kube, DATA)
    begin(site, root, host_units(), ca=ca if configured else None)
    await site.until(TYPE, "Ready")
    foreign = of_another_ca()
    await put_secret(kube, foreign)
    refused = await site.until(TYPE, "FailedToUpdateTLSCertificate")
    assert "its CA is not" in refused.message
    assert is_loaded(root, DATA)
    await put_secret(kube, {**foreign, "ca.crt": DATA["ca.crt"] + foreign["ca.crt"]})
    await site.until(TYPE, "FailedToUpdateTLSCertificate")
    assert (root / "CA/cacert.pem").read_bytes() == DATA["ca.crt"]


async def test_first_ca_of_a_host_has_to_be_in_the_administrators_file(
    kube: Kube, site: Site, tmp_path: Path
) -> None:
    root, ca = tmp_path / "pki", tmp_path / "ca.crt"
    ca.write_bytes(DATA["ca.crt"])
    await create_hypervisor(kube)
    await put_secret(kube, of_another_ca())
    begin(site, root, host_units(), ca=ca)
    refused = await site.until(TYPE, "FailedToUpdateTLSCertificate")
    assert "not in the file of --pki-ca-file" in refused.message
    assert not (root / "CA/cacert.pem").exists()
    await put_secret(kube, DATA)
    await site.until(TYPE, "Ready")


async def test_ca_changes_by_the_administrators_file(
    kube: Kube, site: Site, tmp_path: Path
) -> None:
    root, ca = tmp_path / "pki", tmp_path / "ca.crt"
    await create_hypervisor(kube)
    await put_secret(kube, DATA)
    new = of_another_ca()
    ca.write_bytes(DATA["ca.crt"] + new["ca.crt"])
    begin(site, root, host_units(), ca=ca)
    await site.until(TYPE, "Ready")
    await put_secret(kube, new)
    await site.until(TYPE, "Installing")
    await site.until(TYPE, "Ready")
    assert is_loaded(root, new)


async def test_a_restarted_agent_does_not_rewrite_an_installed_secret(
    kube: Kube, site: Site, tmp_path: Path
) -> None:
    await create_hypervisor(kube)
    await put_secret(kube, DATA)
    begin(site, tmp_path, host_units())
    await site.until(TYPE, "Ready")
    site.board.drop_condition(TYPE)

    again = host_units()
    begin(site, tmp_path, again)

    await site.until(TYPE, "Ready")
    assert again.jobs == []


async def test_missing_keys_are_named_and_nothing_is_written(
    kube: Kube, site: Site, tmp_path: Path
) -> None:
    await create_hypervisor(kube)
    begin(site, tmp_path, host_units())
    await put_secret(kube, {"ca.crt": DATA["ca.crt"], "tls.crt": DATA["tls.crt"]})

    failed = await site.until(TYPE, "FailedToUpdateTLSCertificate")

    assert failed.status == "False"
    assert "lacks tls.key" in failed.message
    assert is_empty(tmp_path)

    await put_secret(kube, DATA)
    await site.until(TYPE, "Ready")


async def test_a_directory_that_cannot_be_written_is_named(
    kube: Kube, site: Site, tmp_path: Path
) -> None:
    (tmp_path / "pki").write_text("a file")
    await create_hypervisor(kube)
    await put_secret(kube, DATA)
    begin(site, tmp_path / "pki", host_units())

    failed = await site.until(TYPE, "FailedToUpdateTLSCertificate")

    assert "pki" in failed.message


async def test_libvirtd_is_restarted_where_its_unit_for_new_certificates_lacks(
    kube: Kube, site: Site, tmp_path: Path
) -> None:
    units = host_units(update="not-found")
    await create_hypervisor(kube)
    await put_secret(kube, DATA)
    begin(site, tmp_path, units)

    await site.until(TYPE, "Ready")

    assert units.jobs == [f"start {UPDATE_UNIT}", f"restart {LIBVIRT_UNIT}"]


async def test_services_that_cannot_be_notified_are_notified_later(
    kube: Kube, site: Site, tmp_path: Path
) -> None:
    units = host_units()
    refusals = iter((True, True, False))

    def job(_: str) -> None:
        if next(refusals):
            raise HostError("access denied")

    units.on_job = job
    await create_hypervisor(kube)
    await put_secret(kube, DATA)
    begin(site, tmp_path, units, resync=timedelta(milliseconds=50))

    failed = await site.until(TYPE, "FailedToStartUpdateTLSService")
    assert failed.message == "access denied; access denied"

    await site.until(TYPE, "Ready")


async def test_only_certificates_of_the_spec_are_installed(
    kube: Kube, site: Site, tmp_path: Path
) -> None:
    await create_hypervisor(kube, installCertificate=False)
    await put_secret(kube, DATA)
    begin(site, tmp_path, host_units())
    async with asyncio.timeout(DEADLINE):
        while TYPE not in site.board.parts.conditions:
            await site.board.changed(site.board.parts)
    assert site.board.parts.conditions[TYPE] is None
    assert is_empty(tmp_path)

    await kube.merge_patch(Hypervisor, NODE, {"spec": {"installCertificate": True}})

    await site.until(TYPE, "Ready")


async def test_files_changed_by_hand_are_put_right_in_time(
    kube: Kube, site: Site, tmp_path: Path
) -> None:
    units = host_units()
    await create_hypervisor(kube)
    await put_secret(kube, DATA)
    begin(site, tmp_path, units, resync=timedelta(milliseconds=50))
    await site.until(TYPE, "Ready")
    notified = asyncio.Event()
    units.on_job = lambda _: notified.set()

    (tmp_path / "qemu/server-key.pem").chmod(0o644)

    async with asyncio.timeout(DEADLINE):
        await notified.wait()
    await site.until(TYPE, "Ready")
    assert is_loaded(tmp_path, DATA)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (lambda: data("kvm-b"), NODE),
        (lambda: {**data(), "ca.crt": trustme.CA().cert_pem.bytes()}, "its CA is not the one"),
        (lambda: data() | {"tls.crt": expired().cert_chain_pems[0].bytes()}, "do not fit"),
        (lambda: of(expired()), "expired"),
    ],
    ids=["of another host", "of another CA", "of another key", "expired"],
)
async def test_secret_that_is_not_for_this_host_changes_no_file(
    kube: Kube,
    site: Site,
    tmp_path: Path,
    content: Callable[[], dict[str, bytes]],
    why: str,
) -> None:
    units = host_units()
    await create_hypervisor(kube)
    await put_secret(kube, DATA)
    begin(site, tmp_path, units)
    await site.until(TYPE, "Ready")

    await put_secret(kube, content())
    failed = await site.until(TYPE, "FailedToUpdateTLSCertificate")

    assert failed.status == "False"
    assert why in failed.message
    assert is_loaded(tmp_path, DATA)
    assert units.jobs == [f"start {UPDATE_UNIT}"]


class DyingError(Exception):
    """The agent dies."""


class DyingUnits(FakeUnits):
    """Units on which the agent dies before, or right after, notifying a service."""

    def __init__(self, *, after: bool) -> None:
        super().__init__(
            UnitState(UPDATE_UNIT, load="loaded", active="inactive"),
            UnitState(LIBVIRT_UNIT, load="loaded", active="active"),
        )
        self._after = after

    async def start(self, name: str, *, deadline: timedelta = timedelta(seconds=90)) -> None:
        if self._after:
            await super().start(name, deadline=deadline)
        raise DyingError


@pytest.mark.parametrize("after", [False, True])
async def test_an_agent_that_dies_while_it_notifies_libvirt_notifies_it_again(
    kube: Kube, site: Site, tmp_path: Path, after: bool
) -> None:
    await create_hypervisor(kube)
    await put_secret(kube, DATA)
    async with asyncio.timeout(DEADLINE):
        while site.hypervisor.value is None:
            await site.hypervisor.changed(None)
        while site.secret.value is None:
            await site.secret.changed(None)
    dying = FromSecret(
        installer(tmp_path, DyingUnits(after=after), site.board), site.hypervisor, site.secret
    )
    with pytest.raises(DyingError):
        await dying.run()
    assert not is_loaded(tmp_path, DATA)

    units = host_units()
    begin(site, tmp_path, units)

    await site.until(TYPE, "Ready")
    assert units.jobs == [f"start {UPDATE_UNIT}"]
    assert is_loaded(tmp_path, DATA)


async def certificate(kube: Kube, good: Callable[[Certificate], bool]) -> Certificate:
    async with (
        asyncio.timeout(DEADLINE),
        kube.watch(Certificate, NAMESPACE, fields=f"metadata.name=libvirt-{NODE}") as events,
    ):
        async for event in events:
            if event.object is not None and good(event.object):
                return event.object
    raise AssertionError("the watch ended")
