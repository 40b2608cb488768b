"""libvirt's host and domains, as status, metrics and a Secret."""
