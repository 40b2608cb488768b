"""Open vSwitch and OVN on this host: OVSDB, daemons, OpenFlow, kernel links."""
