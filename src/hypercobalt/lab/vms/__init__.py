"""The lab's virtual machines: their domains, the fleet of them, and the network between."""
