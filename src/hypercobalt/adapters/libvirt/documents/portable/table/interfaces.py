"""Network interfaces: on the site's bridges and networks, by devices that libvirt makes itself."""

from __future__ import annotations

from typing import Final

from hypercobalt.adapters.libvirt.documents.portable.rules import (
    Choice,
    Dropped,
    Entry,
    Named,
    Rule,
    element,
)
from hypercobalt.adapters.libvirt.documents.portable.table.common import (
    BOOT,
    DEVICE,
    ROM,
    VIRTIO_DRIVER,
)
from hypercobalt.adapters.libvirt.documents.portable.values import (
    MAC,
    NO,
    NUMBER,
    ON_OFF,
    SMALL,
    TOKEN,
    UUID,
    YES_NO,
    one_of,
)

_RATE: Final = element(average=NUMBER, peak=NUMBER, burst=NUMBER, floor=NUMBER)
# libvirt passes on the name of any device of QEMU's.
_MODEL: Final = one_of(
    "virtio virtio-transitional virtio-non-transitional e1000 e1000e igb rtl8139 ne2k_pci pcnet "
    "vmxnet3 lan9118 smc91c111 spapr-vlan usb-net"
)
_HOST: Final = dict.fromkeys(["csum", "gso", "tso4", "tso6", "ecn", "ufo", "mrg_rxbuf"], ON_OFF)
_GUEST: Final = dict.fromkeys(["csum", "tso4", "tso6", "ecn", "ufo"], ON_OFF)

_OPENVSWITCH: Final = element(
    {"parameters": element(interfaceid=UUID, profileid=TOKEN)},
    type=one_of("openvswitch"),
    required="type",
)


def _interface(type_: str, source: Rule) -> Rule:
    children: dict[str, Entry] = {
        **DEVICE,
        "mac": element(address=MAC, type=one_of("generated static"), check=YES_NO),
        "source": source,
        "virtualport": Choice("type", {"openvswitch": _OPENVSWITCH}),
        "target": Dropped(1),  # libvirt names it: another port's tap could not be made there
        "model": element(type=_MODEL, required="type"),
        "driver": element(
            {"host": element(None, _HOST), "guest": element(None, _GUEST)},
            VIRTIO_DRIVER,
            name=one_of("vhost qemu"),
            txmode=one_of("iothread timer"),
            ioeventfd=ON_OFF,
            event_idx=ON_OFF,
            queues=SMALL,
            rx_queue_size=SMALL,
            tx_queue_size=SMALL,
            rss=ON_OFF,
            rss_hash_report=ON_OFF,
        ),
        "mtu": element(size=NUMBER, required="size"),
        "link": element(state=one_of("up down"), required="state"),
        "boot": BOOT,
        "rom": ROM,
        "port": element(isolated=YES_NO),
        "tune": element({"sndbuf": element(text=NUMBER)}),
        "coalesce": element(
            {"rx": element({"frames": element(max=NUMBER)})},
        ),
        "bandwidth": element({"inbound": _RATE, "outbound": _RATE}),
    }
    return element(children, type=one_of(type_), trustGuestRxFilters=NO, required="type")


INTERFACE: Final = Choice(
    "type",
    {
        "bridge": _interface("bridge", element(bridge=Named.NETWORK, required="bridge")),
        "network": _interface(
            "network",
            element(network=Named.NETWORK, required="network", dropped="portid bridge"),
        ),
    },
    most=128,
)
