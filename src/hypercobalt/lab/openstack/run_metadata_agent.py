"""Runs Neutron's metadata agent as one process, with OpenStack's own Python.

It would start three helpers with more rights, of 120 MiB and some seconds each, and then wait for
them with the first guest of a network. It is root already, and so does their work itself.

usage: run_metadata_agent.py --config-file CONFIGURATION
"""

import importlib

load = importlib.import_module
contexts = load("oslo_privsep.priv_context").PrivContext
for context in vars(load("neutron.privileged")).values():
    if isinstance(context, contexts):
        context.set_client_mode(enabled=False)
load("neutron.cmd.agents.ovn_metadata").main()
