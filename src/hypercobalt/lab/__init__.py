"""Several real hosts on one machine: systemd, libvirtd, QEMU, Open vSwitch and OVN each."""
