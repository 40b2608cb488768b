"""openstacksdk's configuration, without the rest of openstacksdk.

Its package imports the proxies of every service, 445 modules and 10 MiB that nothing here uses; its
subpackage `openstack.config` needs none of them. So that is imported below a package that has not
been executed. Whoever asks the package for anything else has it executed then.

With a release whose configuration needs the package, it is imported as usual.

Source: docs/decisions/0011-openstack-through-openstacksdk.md; Python's reference, "Submodules", and
PEP 562.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from types import ModuleType
from typing import Final

_PACKAGE: Final = "openstack"
_NEEDED: Final = ("openstack.config.loader", "openstack.config.cloud_region")


def _import_configuration() -> None:
    spec = None if _PACKAGE in sys.modules else PathFinder.find_spec(_PACKAGE)
    if spec is None or spec.loader is None:
        return  # imported already, or by another way than from files, or not installed
    package = sys.modules[_PACKAGE] = module_from_spec(spec)
    try:
        for name in _NEEDED:
            import_module(name)
    except (ImportError, AttributeError):
        for name in [name for name in sys.modules if f"{name}.".startswith(f"{_PACKAGE}.")]:
            del sys.modules[name]
        return
    _execute_when_asked(package, spec.loader)


def _execute_when_asked(package: ModuleType, loader: Loader) -> None:
    """Execute a package once an attribute is requested that it does not have."""

    def missing(name: str) -> object:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)  # who looks at all modules, as unittest does
        del package.__dict__["__getattr__"]
        try:
            loader.exec_module(package)
        except (ImportError, AttributeError) as exc:
            # One of its modules asks for the next while the package would need it itself. Python
            # imports that one then, and the package is executed when it is asked again.
            package.__dict__["__getattr__"] = missing
            raise AttributeError(name) from exc
        return getattr(package, name)

    package.__dict__["__getattr__"] = missing


_import_configuration()

from openstack.config.cloud_region import CloudRegion  # noqa: E402
from openstack.config.loader import OpenStackConfig  # noqa: E402
from openstack.exceptions import ConfigException  # noqa: E402

__all__ = ["CloudRegion", "ConfigException", "OpenStackConfig"]
