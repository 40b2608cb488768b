"""What a portable definition may have, element by element.

Source: libvirt's formatdomain.html of version 9.0, and domaincommon.rng. An element or attribute of
a later version is refused until it has a line here.
"""
