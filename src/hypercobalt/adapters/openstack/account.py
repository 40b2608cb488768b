"""The account for OpenStack: clouds.yaml, `OS_*`, and a password that a command prints.

Configuration, catalogue and tokens are openstacksdk's and keystoneauth's. Everything here blocks
and runs on the pool's threads.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import requests
from keystoneauth1 import exceptions as keystone
from keystoneauth1.session import Session

from hypercobalt.adapters.openstack.catalogue import Catalogue
from hypercobalt.adapters.openstack.errors import NotAuthenticatedError
from hypercobalt.adapters.openstack.sdk import CloudRegion, ConfigException, OpenStackConfig
from hypercobalt.adapters.openstack.trust import PLAIN, check_files, exposures, is_plain, why
from hypercobalt.errors import ConfigurationError

COMMAND_SECONDS: Final = 30
_VERSIONED: Final = re.compile(r"(.*?/v\d+(?:\.\d+)?)(?:/.*)?")
_SCOPE = (
    *("project_id", "project_name", "project_domain_id", "project_domain_name"),
    *("tenant_id", "tenant_name", "domain_id", "domain_name", "system_scope", "trust_id"),
)


@dataclass(frozen=True, slots=True)
class AccountIdentity:
    """Settings of an account that clouds.yaml and `OS_*` do not have.

    Args:
        user_agent: what the services' logs name.
        password_command: for the shell; what it prints, less one newline at the end, is the
            password. "" leaves the password to the rest of the configuration.
        project: in place of the configured one; "" keeps that, and so does an application
            credential.
        project_domain: of `project`.
    """

    user_agent: str
    password_command: str = ""
    project: str = ""
    project_domain: str = ""


class _Config(OpenStackConfig):
    """openstacksdk's configuration, with the account's own words in it."""

    def __init__(self, identity: AccountIdentity, password: str | None) -> None:
        self._identity, self._password = identity, password
        super().__init__(app_name=identity.user_agent)
        self._influxdb_config = {}  # the library warns of its own default

    def auth_config_hook(self, config: dict[str, Any]) -> dict[str, Any]:
        config = super().auth_config_hook(config)
        auth = config["auth"]
        if self._password is not None:
            auth["password"] = self._password
        if self._identity.project and not _is_bound(config):
            for key in _SCOPE:
                auth.pop(key, None)
                config.pop(key, None)
            auth["project_name"] = self._identity.project
            auth["project_domain_name"] = self._identity.project_domain
        return config


def _is_bound(config: dict[str, Any]) -> bool:
    """Whether the account is an application credential: bound to its project, whatever is named.

    Keystone refuses every other scope, and one that names the very same project.
    """
    return "applicationcredential" in str(config.get("auth_type") or "").lower()


class Account:
    """Configuration and tokens of one identity.

    Read when it is first needed, and again after Keystone refused it: a password that was changed
    is taken without a restart.

    Args:
        identity: who.
        http: makes what it sends by.
        exposed: is called with what is not protected on its way: the kind, and a sentence.
    """

    def __init__(
        self,
        identity: AccountIdentity,
        http: Callable[[], requests.Session],
        exposed: Callable[[str, str], None] = lambda _kind, _what: None,
    ) -> None:
        self._identity, self._http, self._exposed = identity, http, exposed
        self._lock, self._renewing = threading.Lock(), threading.Lock()
        self._region: CloudRegion | None = None
        self._made: tuple[Session, Catalogue] | None = None

    def check(self) -> None:
        """Check that there is a configuration, without a call to Keystone.

        Raises:
            ConfigurationError: there is none that can be used.
        """
        region = self._read("unused" if self._identity.password_command else None)
        for kind, what in exposures(region).items():
            self._exposed(kind, what)

    def session(self) -> Session:
        """The session of keystoneauth.

        Raises:
            ConfigurationError: the configuration cannot be used.
            NotAuthenticatedError: the password's command failed.
        """
        return self._at_hand()[0]

    def headers(self) -> dict[str, str]:
        """What authenticates a request: a token that is good for some time yet.

        Raises:
            NotAuthenticatedError: Keystone gives none, or does not answer. After a refusal the next
                call reads the configuration again.
        """
        session = self.session()
        with self._requesting(session):
            return session.get_auth_headers() or {}

    def renew(self, refused: dict[str, str]) -> dict[str, str]:
        """Headers in place of those which a service refused; of many callers one gets a token.

        Raises:
            NotAuthenticatedError: as for `headers`.
        """
        session = self.session()
        with self._renewing, self._requesting(session):
            if session.get_auth_headers() == refused:
                session.invalidate()
            return session.get_auth_headers() or {}

    def user(self) -> str:
        """The id of the user that the token is of; "" when it does not have one.

        Raises:
            NotAuthenticatedError: as for `headers`.
        """
        session = self.session()
        with self._requesting(session):
            return session.get_user_id() or ""

    def endpoint(self, service: str) -> str:
        """Where a service is, without a slash at the end.

        Raises:
            NoEndpointError: it is not in the catalogue, or not in the region.
            NotAuthenticatedError: as for `headers`.
        """
        session, catalogue = self._at_hand()
        with self._requesting(session):
            found = catalogue.endpoint(service)
        if is_plain(found):
            self._exposed(PLAIN, f"the service {service} at {found}: tokens are sent unencrypted")
        return found

    @contextmanager
    def _requesting(self, session: Session) -> Generator[None]:
        """Raise Keystone's errors as ours; after a bad answer begin from the start."""
        try:
            yield
        except (keystone.Unauthorized, keystone.NotFound, keystone.Forbidden) as exc:
            self._drop(session)
            raise NotAuthenticatedError(
                f"Keystone issues no token to {self._who(self._region)}: {why(exc)}. "
                "Check the user, the password, the project and their domains"
            ) from exc
        except (keystone.ClientException, OSError) as exc:  # OSError: files of TLS
            raise NotAuthenticatedError(f"Keystone does not answer: {why(exc)}") from exc
        except (TypeError, ValueError, LookupError, AttributeError) as exc:
            # keystoneauth takes a token's document as it comes, and keeps it.
            self._drop(session)
            raise NotAuthenticatedError(
                f"Keystone's answer cannot be read: {type(exc).__name__}: {why(exc)}. "
                "Is OS_AUTH_URL the address of Keystone's API, version 3?"
            ) from exc

    def _at_hand(self) -> tuple[Session, Catalogue]:
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made

    def _drop(self, session: Session) -> None:
        with self._lock:
            if self._made and self._made[0] is session:
                self._made = None

    def root(self, service: str) -> str:
        """A service's endpoint up to the API's version: without a project's id.

        Raises:
            NoEndpointError: as for `endpoint`.
        """
        endpoint = self.endpoint(service)
        found = _VERSIONED.fullmatch(endpoint)
        return found[1] if found else endpoint

    def _make(self) -> tuple[Session, Catalogue]:
        command = self._identity.password_command
        region = self._read(_printed(command) if command else None)
        verify, cert = region.get_requests_verify_args()
        session = Session(
            auth=region.get_auth(),
            session=self._http(),
            verify=verify if verify is not None else True,
            cert=cert,
            app_name=self._identity.user_agent,
        )
        self._region = region
        return session, Catalogue(region, session, self._who(region))

    def _read(self, password: str | None) -> CloudRegion:
        try:
            region = _Config(self._identity, password).get_one()
        except (ConfigException, keystone.ClientException, OSError, ValueError) as exc:
            raise ConfigurationError(
                f"the account for OpenStack: {exc}. Set OS_CLOUD to a cloud of clouds.yaml, or "
                "OS_AUTH_URL, OS_USERNAME, OS_PASSWORD or OS_PW_CMD, OS_PROJECT_NAME, "
                "OS_USER_DOMAIN_NAME and OS_PROJECT_DOMAIN_NAME"
            ) from exc
        check_files(region)
        return region

    @staticmethod
    def _who(region: CloudRegion | None) -> str:
        auth: dict[str, object] = region.get_auth_args() if region else {}
        user = auth.get("username") or auth.get("user_id") or "the account"
        project = auth.get("project_name") or auth.get("project_id") or "no project"
        return f"{user} in {project} at {auth.get('auth_url', 'no address')}"


def _printed(command: str) -> str:
    """What a shell command prints; the command itself is no argument of a process either."""
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", 'eval "$OS_PW_CMD"'],
            env={**os.environ, "OS_PW_CMD": command},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=COMMAND_SECONDS,
            check=True,
        )
        return done.stdout.decode().removesuffix("\n")
    except subprocess.TimeoutExpired:  # its output may have the password: from None
        raise NotAuthenticatedError(
            f"OS_PW_CMD did not end within {COMMAND_SECONDS} s", sent=False
        ) from None
    except subprocess.CalledProcessError as exc:
        raise NotAuthenticatedError(
            f"OS_PW_CMD ended with {exc.returncode}; run it by hand to see why", sent=False
        ) from None
    except UnicodeDecodeError:
        raise NotAuthenticatedError("the output of OS_PW_CMD is not UTF-8", sent=False) from None
