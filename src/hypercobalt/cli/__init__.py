"""The `cobalt` command: one thin module per command group, and the only room that prints."""

from __future__ import annotations

import signal
import sys
from datetime import timedelta

from cyclopts import App, Parameter

from hypercobalt.api.duration import short_duration
from hypercobalt.cli import output


def _shown(default: object) -> object:
    """A default as it can be typed: `10m`, not `0:10:00`."""
    if isinstance(default, timedelta):
        return short_duration(default)
    return '""' if default == "" else default


_ENDS = (
    "\n\nExit codes: 0 done; 1 failed, or a server cannot be reached or refuses; 2 invalid "
    "request; 130 interrupted."
)

app = App(
    name="cobalt",
    help="The hypervisor layer for Kubernetes.",
    default_parameter=Parameter(show_default=_shown),
)

# Commands are named by import path, so that a command loads only what it needs itself. The help is
# here, so that listing the commands imports none of them; its first line is in the list.
app.command(
    "hypercobalt.cli.crds:crds", help=f"Print the CustomResourceDefinitions as YAML.{_ENDS}"
)
app.command(
    "hypercobalt.cli.apiserver:app",
    name="apiserver",
    help="Serve the Kubernetes API with hypercobalt's types, for one machine.\n\n"
    "Runs until SIGTERM or SIGINT. Everything is kept in the data directory; a second server on it "
    f"is refused.{_ENDS}",
)
app.command(
    "hypercobalt.cli.operator:operator",
    help="Run the operator: Hypervisors for Nodes, onboarding, maintenance, eviction.\n\n"
    "Runs until SIGTERM or SIGINT. The account for OpenStack is read from OS_*, OS_PW_CMD and "
    "clouds.yaml. --zap-devel, --zap-stacktrace-level, --zap-time-encoding and --enable-http2 of "
    f"the existing operator are accepted without effect.{_ENDS}",
)
app.command(
    "hypercobalt.cli.node_agent:node_agent",
    name="node-agent",
    help="Run the agent of one host: its Hypervisor's status, Migrations, certificates.\n\n"
    "Runs until SIGTERM or SIGINT. Environment variables apply where no flag is given: HOSTNAME, "
    "NODE_LABEL, NAMESPACE, LIBVIRT_DEFAULT_URI, LIBVIRT_SOCKET, PKI_PATH, ISSUER_NAME, "
    "ISSUER_KIND, HOST_IP_ADDRESS, CERTIFICATE_SOURCE. With EMULATE, libvirt and the host's "
    "services are simulated. --leader-elect, --enable-http2, --zap-devel, --zap-stacktrace-level "
    "and --zap-time-encoding are accepted without effect: of several agents of one host, one works "
    f"at a time.{_ENDS}",
)
app.command(
    "hypercobalt.cli.ovs_agent:ovs_agent",
    name="ovs-agent",
    help="Run the agent of Open vSwitch on one host: its OVSNode.\n\n"
    "Runs until SIGTERM or SIGINT. Changes nothing on the switch unless with --capture-by-mirror. "
    "Environment variables apply where no flag is given: NODE_NAME, HOSTNAME, NAMESPACE, "
    f"OVS_RUNDIR, OVN_RUNDIR, HOST_IP_ADDRESS.{_ENDS}",
)
app.command(
    "hypercobalt.cli.virt_api:virt_api",
    name="virt-api",
    help="Serve admission of VirtualMachineInstances to an API server, as its webhooks.\n\n"
    "Runs until SIGTERM or SIGINT. The embedded API server needs no such process: it runs the same "
    f"rules with `cobalt apiserver --virt`.{_ENDS}",
)
app.command(
    "hypercobalt.cli.virt_controller:virt_controller",
    name="virt-controller",
    help="Run the controller of VirtualMachineInstances: pods, and the hand-over to nodes.\n\n"
    f"Runs until SIGTERM or SIGINT.{_ENDS}",
)
app.command(
    "hypercobalt.cli.virt_handler:virt_handler",
    name="virt-handler",
    help="Run the guests of one node: their launchers, their state, their end.\n\n"
    "Runs until SIGTERM or SIGINT; guests go on without it. Environment variables apply where no "
    f"flag is given: NODE_NAME, HOSTNAME, NAMESPACE.{_ENDS}",
)
app.command(
    "hypercobalt.cli.evict:evict",
    help="Move instances away from a host.\n\n"
    "Sets the host's maintenance to manual, unless it is in maintenance, and creates an Eviction "
    "of its name, which the operator processes. An Eviction that has failed, or ended before the "
    "maintenance, is replaced. With --instances the host stays in service, and the Eviction gets a "
    "name of its own.\n\n"
    "Exit codes: 0 requested, with --watch: all instances have left; 1 the API cannot be reached "
    "or refuses; 2 invalid request; 3 the Eviction failed; 4 the Eviction was cancelled; 130 "
    "interrupted, the Eviction continues.",
)
app.command(
    "hypercobalt.cli.maintain:maintain",
    help="Take a host out of service.\n\n"
    "The host gets no new instances, and its instances leave.\n\n"
    "Exit codes: 0 requested, with --wait: the host is empty; 1 the API cannot be reached or "
    "refuses; 2 invalid request; 3 the Eviction failed; 130 interrupted, the maintenance "
    "continues.",
)
app.command(
    "hypercobalt.cli.maintain:resume",
    help=f"Put a host back into service.\n\nAn Eviction that is under way is cancelled.{_ENDS}",
)
app.command(
    "hypercobalt.cli.explain:explain",
    help=f"Explain the state of a host, an Eviction, a Migration or a VMI, and what to do.{_ENDS}",
)
app.command(
    "hypercobalt.cli.network:app",
    name="network",
    help="Compare the switches of all hosts, by their OVSNodes.",
)
app.command(
    "hypercobalt.cli.network:bridges",
    help=f"Show the bridges of a host, by its OVSNode, or one as its agent reads it now.{_ENDS}",
)
app.command(
    "hypercobalt.cli.network:bonds",
    help=f"Show the bonds of a host and their members, by its OVSNode.{_ENDS}",
)
app.command(
    "hypercobalt.cli.ports:ports",
    help=f"Show the ports of a host, as its OVS agent reads them now.{_ENDS}",
)
app.command(
    "hypercobalt.cli.ovn:ovn",
    help=f"Show what ovn-controller of a host has bound and computed, read now.{_ENDS}",
)
app.command(
    "hypercobalt.cli.trace:trace",
    help="Trace an imaginary packet through the switch of a host; nothing is sent.\n\n"
    "Shows where the packet ends, and what each table does with it. Fields that are not given are "
    "taken from OVN: `cobalt trace kvm-1 --from tap1 --to tap2` is a ping between two instances. A "
    f"packet that is dropped is traced, too.{_ENDS}",
)
app.command(
    "hypercobalt.cli.console:console",
    help="Connect to the serial console of a guest; Ctrl-] leaves.\n\n"
    "The virt-handler of the guest's node serves it to people with the right `get` on "
    "virtualmachineinstances/console of subresources.kubevirt.io. Whoever comes later takes over. "
    f"Without a terminal, bytes are copied until the guest ends or Ctrl-C.{_ENDS}",
)
app.command(
    "hypercobalt.cli.capture:capture",
    help="Capture packets of a port of a host, until Ctrl-C or a limit ends it.\n\n"
    "As in: cobalt capture kvm-1 tap1 --filter icmp | wireshark -k -i -"
    f"{_ENDS}",
)
app.command(
    "hypercobalt.cli.logs:logs",
    help=f"Show lines of a host's journal, of the services that carry instances.{_ENDS}",
)
app.command("hypercobalt.cli.lab:lab", help=f"Run several real hosts on one machine.{_ENDS}")
app.command(
    "hypercobalt.cli.drill:drill",
    help="Break real hosts, and check that no instance is lost and none runs twice.\n\n"
    "Each drill has a small lab of its own. Without a name, the drills are listed.\n\n"
    "Exit codes: 0 passed; 1 a drill failed; 2 invalid request; 130 interrupted.",
)


def main() -> None:
    """Entry point of the `cobalt` command."""
    shown = output.prepare()
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:  # while a command is still being loaded
        sys.exit(128 + signal.SIGINT)
    except BrokenPipeError:  # `cobalt crds | head`: the reader has closed the pipe
        pass
    except output.OutputError as error:
        sys.exit(f"cobalt: {error}")
    finally:
        if shown.is_unread:  # whatever a library made of that
            output.discard(shown.fileno())
            sys.exit(128 + signal.SIGPIPE)
