"""OpenStack as a small model behind its HTTP API: for tests of scale, faults and races.

Keystone, Nova, Placement, and as much of Glance, Neutron and Cinder as a server needs. Its answers
are held to those of the real ones by the tests in `tests/openstack`, which run on both.

`serve` runs it in the caller's loop; `python -m tests.simulated_openstack` as a process, for
benchmarks. `world` is what is there, `pace` how long things take, `script` what goes wrong.
"""
