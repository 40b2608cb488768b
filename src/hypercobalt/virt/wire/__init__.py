"""What virt-handler and a launcher say to each other: frames, messages, client and server.

The handler connects to the socket in the launcher's pod. The connection carries calls, and the
state of the launcher's domain: the present one first, then each change. Source: KubeVirt's
cmd-v1 and notify protocols, whose calls these are.
"""
