"""The compute service of a site without OpenStack: virtual machines go from libvirt to libvirt.

A host's libvirtd is the only record of what is on it. Nothing is kept that a restart would miss:
what moves is found by the jobs of the domains.
"""
