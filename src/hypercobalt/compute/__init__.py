"""The operator's port to OpenStack, or to libvirt, which places and moves virtual machines.

`port` has the operator's calls, `model` their results, `errors` what can go wrong. The adapters are
`nova` (OpenStack) and `direct` (libvirt to libvirt, without OpenStack), and `fake`.
"""
