"""Where virtual machines are placed and moved: the operator's port to OpenStack, or to libvirt.

`port` has the operator's calls, `model` their results, `errors` what can go wrong. Behind it
stand `nova` (OpenStack) and `direct` (libvirt to libvirt, without OpenStack), and `fake`.
"""
