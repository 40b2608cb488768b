"""What libvirt knows of the host and its domains, as status, metrics and a Secret."""
