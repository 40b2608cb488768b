"""The compute service that is OpenStack's: Nova, with Placement, Glance and Neutron beside it."""
