"""The compute service of OpenStack: Nova, with Placement, Glance and Neutron."""
