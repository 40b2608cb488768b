"""The lab's virtual machines: what libvirt is told, the fleet of them, and the network between."""
