"""What libvirt knows of the host and its domains, as status and as metrics."""
