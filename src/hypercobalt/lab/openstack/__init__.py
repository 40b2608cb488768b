"""An OpenStack of a lab: its services on the machine, nova-compute on each host."""
