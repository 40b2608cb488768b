"""The configuration of every service, as text: pure.

A value that is there for a reason has it beside it; the others are addresses and paths.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Final

from hypercobalt.lab.disk import LOCAL
from hypercobalt.lab.host import SHARED
from hypercobalt.lab.openstack.place import (
    CINDER,
    GLANCE,
    KEYSTONE,
    PASSWORD,
    REGION,
    OpenStackPlace,
)
from hypercobalt.lab.ovn import NORTHBOUND_PORT, SOUTHBOUND_PORT

Sections = Mapping[str, Mapping[str, object]]

RABBIT_PORT: Final = 5672
ACCOUNT: Final = "openstack"  # of all services, in Keystone and RabbitMQ
SHARED_INSTANCES, LOCAL_INSTANCES = f"{SHARED}/instances", f"{LOCAL}/instances"
SHARED_VOLUMES: Final = f"{SHARED}/volumes"
"""In a host: the directory whose files are Cinder's volumes."""
VOLUME_MOUNTS: Final = "/var/lib/nova/mnt"
"""In a host: where Nova mounts shares of volumes."""
METADATA_PORT: Final = 8775
"""Where Nova answers Neutron's metadata agents."""
VOLUMES: Final = "shared"  # the only backend of Cinder
SHARE: Final = ("lab", "/volumes")
"""The share of that backend: a server of NFS, which there is none, and a path."""
_PRIVILEGED: Final = (
    "nova_sys_admin",
    "vif_plug_ovs_privileged",
    "vif_plug_linux_bridge_privileged",
    "privsep_osbrick",
)


def text(*parts: Sections) -> str:
    """An ini file; sections of one name are joined."""
    joined: dict[str, dict[str, object]] = {}
    for part in parts:
        for name, values in part.items():
            joined.setdefault(name, {}).update(values)
    return "\n".join(
        f"[{name}]\n" + "".join(f"{key} = {_value(value)}\n" for key, value in values.items())
        for name, values in joined.items()
    )


def _value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def files(place: OpenStackPlace) -> dict[str, str]:
    """Every file of the services on the machine, by name."""
    return {
        "keystone.conf": text(_keystone(place)),
        "placement.conf": text(_placement(place)),
        "glance-api.conf": text(_glance(place)),
        "nova.conf": text(_nova(place), _nova_controller(place)),
        "neutron.conf": text(_neutron(place)),
        "cinder.conf": text(_cinder(place)),
    }


def _database(place: OpenStackPlace, name: str, connections: int = 5) -> dict[str, object]:
    return {"connection": database_url(place, name), "max_pool_size": connections}


def database_url(place: OpenStackPlace, name: str) -> str:
    return f"mysql+pymysql://root@localhost/{name}?unix_socket={place.socket}&charset=utf8"


def transport_url(place: OpenStackPlace) -> str:
    return f"rabbit://{ACCOUNT}:{PASSWORD}@{place.address}:{RABBIT_PORT}/"


def _account(place: OpenStackPlace) -> dict[str, object]:
    return {
        "auth_url": place.url(KEYSTONE),
        "auth_type": "password",
        "project_domain_id": "default",
        "user_domain_id": "default",
        "project_name": "service",
        "username": ACCOUNT,
        "password": PASSWORD,
        "region_name": REGION,
    }


def _tokens(place: OpenStackPlace) -> dict[str, object]:
    """How an API checks the tokens of its callers."""
    return _account(place) | {
        "www_authenticate_uri": place.url(KEYSTONE),
        "service_token_roles": "service",
        "service_token_roles_required": True,
    }


def _keystone(place: OpenStackPlace) -> Sections:
    fernet = place.keys / "fernet"
    return {
        "DEFAULT": {"log_file": place.log / "keystone.log", "max_token_size": 255},
        "database": _database(place, "keystone"),
        "token": {"provider": "fernet", "expiration": 86400, "caching": False},
        "fernet_tokens": {"key_repository": fernet},
        "revoke": {"caching": False},
        "receipt": {"key_repository": fernet},
        "credential": {"key_repository": place.keys / "credential"},
        # Its one process checks a token for every request of the others.
        "cache": {"enabled": True, "backend": "dogpile.cache.memory"},
        "identity": {"password_hash_rounds": 4},  # the least: the passwords are no secret
    }


def _placement(place: OpenStackPlace) -> Sections:
    return {
        "DEFAULT": {"log_file": place.log / "placement.log"},
        "api": {"auth_strategy": "keystone"},
        "placement_database": _database(place, "placement"),
        "keystone_authtoken": _tokens(place),
    }


def _glance(place: OpenStackPlace) -> Sections:
    state = place.state("glance")
    return {
        "DEFAULT": {
            "log_file": place.log / "glance.log",
            "enabled_backends": "files:file",
            "enabled_import_methods": "[]",
            "worker_self_reference_url": place.url(GLANCE),
            "node_staging_uri": f"file://{state}/staging",
        },
        "glance_store": {"default_backend": "files"},
        "files": {"filesystem_store_datadir": state / "images"},
        "os_glance_staging_store": {"filesystem_store_datadir": state / "staging"},
        "os_glance_tasks_store": {"filesystem_store_datadir": state / "tasks"},
        "database": _database(place, "glance"),
        "paste_deploy": {"flavor": "keystone"},
        "image_format": {
            "disk_formats": "raw,qcow2,aki,ari,ami",  # kernels and their initial file systems
            "require_image_format_match": False,  # or a kernel would be refused
        },
        "keystone_authtoken": _tokens(place),
    }


def _nova(place: OpenStackPlace) -> Sections:
    """What controllers and computes share."""
    return {
        "DEFAULT": {
            "transport_url": transport_url(place),
            # A service that returns is shown in seconds. Ten seconds of silence are normal on a
            # busy machine.
            "report_interval": 4,
            "service_down_time": place.silence,
            "rpc_response_timeout": 30,
            # Periodic tasks begin at once, not up to a minute later: a compute is found by one.
            "periodic_fuzzy_delay": 0,
            # nova-compute takes all of it: its default pool of threads does not shut down. With
            # the defaults a stop takes a minute and more.
            "graceful_shutdown_timeout": 2,
            "manager_shutdown_timeout": 1,
        },
        "oslo_messaging_notifications": {"driver": "noop"},
        "keystone_authtoken": _tokens(place),
        "service_user": _account(place) | {"send_service_user_token": True},
        "placement": _account(place),
        "glance": _account(place),
        "neutron": _account(place),
        "cinder": _account(place) | {"catalog_info": f"{CINDER.kind}::publicURL"},
        "quota": {"driver": "nova.quota.NoopQuotaDriver"},
    }


def _nova_controller(place: OpenStackPlace) -> Sections:
    state = place.state("nova")
    return {
        "DEFAULT": {"host": "controller", "my_ip": place.address, "state_path": state},
        "database": _database(place, "nova_cell1", 10),
        "api_database": _database(place, "nova_api", 10),
        "conductor": {"workers": 1},
        # A new compute is of no use before the scheduler has found it.
        "scheduler": {"workers": 1, "discover_hosts_in_cells_interval": 2},
        "oslo_concurrency": {"lock_path": state / "lock"},
        "wsgi": {"api_paste_config": place.etc / "api-paste.ini"},
    }


def compute(place: OpenStackPlace, name: str, address: str, *, shared: bool) -> str:
    """nova.conf of a compute.

    Args:
        place: of the environment.
        name: of the host, in its own and in Nova's eyes.
        address: of the host on the lab's network.
        shared: whether its guests' disks are where the other hosts see them.
    """
    helper = f"{place.program('privsep-helper')} --config-file /etc/nova/nova.conf"
    return text(
        _nova(place),
        {
            "DEFAULT": {
                "host": name,
                "my_ip": address,
                "compute_driver": "libvirt.LibvirtDriver",
                "state_path": "/var/lib/nova",
                "instances_path": SHARED_INSTANCES if shared else LOCAL_INSTANCES,
                "resume_guests_state_on_host_boot": False,
                "vif_plugging_timeout": 30,
                "reserved_host_memory_mb": 0,
                # Every compute has the whole machine in its eyes.
                "initial_cpu_allocation_ratio": 16.0,
                "initial_ram_allocation_ratio": 4.0,
                "initial_disk_allocation_ratio": 4.0,
                "update_resources_interval": 15,
                "sync_power_state_interval": 15,
            },
            "libvirt": {
                "virt_type": "qemu",  # Linux boots in two seconds; not every nested KVM boots it
                "cpu_mode": "none",
                "images_type": "qcow2",
                "live_migration_uri": "qemu+tcp://%s/system",
                "live_migration_inbound_addr": address,
                "live_migration_permit_auto_converge": True,
                "nfs_mount_point_base": VOLUME_MOUNTS,
            },
            "os_vif_ovs": {"ovsdb_connection": "unix:/var/run/openvswitch/db.sock"},
            "workarounds": {
                # libvirt's model of a virtual machine's CPU is one that its own compare refuses.
                "skip_cpu_compare_on_dest": True,
                # A block migration of a guest with a kernel image fails at the target otherwise.
                "disable_deep_image_inspection": True,
            },
            "vnc": {"enabled": False},
            "spice": {"enabled": False},
            "oslo_concurrency": {"lock_path": "/run/nova-lock"},
            **{context: {"helper_command": helper} for context in _PRIVILEGED},
        },
    )


def compute_id(name: str) -> str:
    """Nova's identity of a compute node; one that changes keeps nova-compute from starting."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


def _neutron(place: OpenStackPlace) -> Sections:
    return {
        "DEFAULT": {
            "core_plugin": "ml2",
            "service_plugins": "ovn-router",
            "transport_url": transport_url(place),
            "state_path": place.state("neutron"),
            "log_file": place.log / "neutron.log",
            "api_paste_config": place.etc / "neutron-api-paste.ini",
            "notify_nova_on_port_status_changes": True,
            "notify_nova_on_port_data_changes": True,
            "rpc_workers": 0,
            "api_workers": 1,
        },
        "database": _database(place, "neutron"),
        "keystone_authtoken": _tokens(place),
        "nova": _account(place),
        "oslo_concurrency": {"lock_path": place.state("neutron") / "lock"},
        "ml2": {
            "type_drivers": "geneve,flat,vlan,local",
            "tenant_network_types": "geneve",
            "mechanism_drivers": "ovn",
            "extension_drivers": "port_security",
            "overlay_ip_version": 4,
        },
        "ml2_type_geneve": {"vni_ranges": "1:65536", "max_header_size": 38},
        "securitygroup": {"enable_security_group": True},
        "ovn": {
            "ovn_nb_connection": f"tcp:{place.address}:{NORTHBOUND_PORT}",
            "ovn_sb_connection": f"tcp:{place.address}:{SOUTHBOUND_PORT}",
            # Each network gets a port for its metadata; without one and without a gateway OVN
            # answers no DHCP.
            "ovn_metadata_enabled": True,
        },
    }


def nova_metadata(secret: str) -> str:
    """What Nova's API has beside nova.conf: how it knows the metadata agents.

    Args:
        secret: theirs as well.
    """
    proxied = {"service_metadata_proxy": True, "metadata_proxy_shared_secret": secret}
    return text({"neutron": proxied})


def metadata_agent(place: OpenStackPlace, secret: str) -> str:
    """Configuration of a host's metadata agent.

    Args:
        place: of the environment.
        secret: with which it signs whose request it passes on.
    """
    state = "/var/lib/neutron"
    return text(
        {
            "DEFAULT": {
                "state_path": state,
                "nova_metadata_host": place.address,
                "nova_metadata_port": METADATA_PORT,
                "metadata_proxy_shared_secret": secret,
            },
            "agent": {
                "root_helper": "env",  # it is root: none is needed
                "check_child_processes_interval": 2,  # a haproxy that has ended is started anew
            },
            "ovs": {"ovsdb_connection": "unix:/var/run/openvswitch/db.sock"},
            "ovn": {"ovn_sb_connection": f"tcp:{place.address}:{SOUTHBOUND_PORT}"},
            "oslo_concurrency": {"lock_path": f"{state}/lock"},
        },
    )


def _cinder(place: OpenStackPlace) -> Sections:
    state = place.state("cinder")
    server, path = SHARE
    return {
        "DEFAULT": {
            "host": "controller",
            "my_ip": place.address,
            "transport_url": transport_url(place),
            "state_path": state,
            "log_file": place.log / "cinder.log",
            "api_paste_config": place.etc / "cinder-api-paste.ini",
            "resource_query_filters_file": place.programs / "etc/cinder/resource_filters.json",
            "enabled_backends": VOLUMES,
            "rpc_response_timeout": 30,
            "periodic_fuzzy_delay": 0,
            # Cinder keeps the id of a service in a class: the reports of one process's services
            # would all be the last one's. So none is needed.
            "report_interval": 3600,
            "service_down_time": 7 * 86400,
        },
        "oslo_messaging_notifications": {"driver": "noop"},
        "database": _database(place, "cinder", 10),
        "keystone_authtoken": _tokens(place),
        "oslo_concurrency": {"lock_path": state / "lock"},
        VOLUMES: {
            "volume_driver": "cinder.volume.drivers.nfs.NfsDriver",
            "volume_backend_name": VOLUMES,
            "nas_host": server,
            "nas_share_path": path,
            "nfs_mount_point_base": state / "mnt",
            # Cinder and QEMU are root, so nobody else has to read the files.
            "nas_secure_file_operations": False,
            "nas_secure_file_permissions": False,
        },
    }
