"""The compute service of a site without OpenStack: virtual machines go from libvirt to libvirt.

A host's libvirtd is the only record of the domains on it. A restart of the operator loses nothing:
moves are found by the jobs of the domains.
"""
