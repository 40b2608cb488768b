"""Libvirt's XML documents, read without trust."""
