"""etcd, API server, controller manager, scheduler and kwok as plain processes."""

import http.client
import ssl
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from localcluster.certificates import Authority
from localcluster.cluster import Cluster, ClusterError
from localcluster.go_build import Say
from localcluster.kubeconfig import write_kubeconfig
from localcluster.processes import Child, free_ports
from localcluster.waiting import eventually

READY_SECONDS = 90.0  # about 3 s when idle; the machine may be compiling beside us
PORTS = ("etcd", "peer", "api", "kcm", "scheduler", "kwok")
# the defaults (20 a second in the controller manager) cost five seconds at the start alone
FAST_CLIENT = ("--kube-api-qps", "500", "--kube-api-burst", "1000")
ISSUER = "https://kubernetes.default.svc"


@dataclass(frozen=True, slots=True)
class Component:
    """A program of the control plane and the address at which it says that it is ready."""

    child: Child
    health: str


class ControlPlane(Cluster):
    """The real control plane, and kwok in the kubelet's place.

    `with ControlPlane(programs) as cluster:`; see `opening.open_cluster` for the usual way in.
    """

    def __init__(
        self,
        programs: Mapping[str, Path],
        directory: Path | None = None,
        say: Say = print,
        *,
        extra_arguments: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Prepare; nothing runs yet.

        Args:
            programs: path of each program, by name.
            directory: for keys, logs and data; a temporary one, removed at the end, if None.
            say: takes a line about what happens.
            extra_arguments: further ones of a component, by its name; the last of a kind wins.
        """
        super().__init__(programs, directory, say)
        self._extra = extra_arguments or {}
        self._ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
        self._components: dict[str, Component] = {}

    @property
    def url(self) -> str:
        """Of the API server; the same after a restart."""
        return f"https://127.0.0.1:{self._ports['api']}"

    @property
    def logs(self) -> Path:
        """The folder with a log per component."""
        return self.directory / "logs"

    def component(self, name: str) -> Child:
        """A component's process.

        Raises:
            ClusterError: there is none of that name.
        """
        if name not in self._components:
            known = ", ".join(self._components)
            raise ClusterError(f"no component {name!r}; there are {known}")
        return self._components[name].child

    def stop(self, component: str, *, graceful: bool = False) -> None:
        """Stop one component; the others keep trying to reach it.

        A graceful end of the API server takes as long as its watchers stay: up to 20 s here.
        """
        self.component(component).stop(graceful=graceful)

    def start(self, component: str) -> None:
        """Start one component again, on its port and data, and wait until it is ready."""
        self.component(component).start()
        self._wait_ready(component)

    def _open(self) -> None:
        authority = Authority(self.directory / "pki")
        serving = authority.server("kube-apiserver")
        write_kubeconfig(
            self.kubeconfig,
            self.url,
            self._authority,
            client=authority.client("kubernetes-admin", "system:masters"),
        )
        for user in ("system:kube-controller-manager", "system:kube-scheduler"):
            write_kubeconfig(
                self._kubeconfig_of(user), self.url, self._authority, client=authority.client(user)
            )
        signing_key = authority.signing_key("service-accounts")
        tls: list[str | Path] = ["--tls-cert-file", serving.certificate]
        tls += ["--tls-private-key-file", serving.key]
        self._add("etcd", self._etcd(), self._health("etcd", "http"))
        self._add("kube-apiserver", self._api_server(signing_key, tls), self._health("api"))
        self._add(
            "kube-controller-manager",
            self._controller_manager(signing_key, tls),
            self._health("kcm"),
        )
        self._add("kube-scheduler", self._scheduler(tls), self._health("scheduler"))
        self._components["kwok"] = Component(
            self._kwok(self._ports["kwok"], self.logs / "kwok.log"), self._health("kwok", "http")
        )
        self.start("etcd")
        self.start("kube-apiserver")
        followers = ("kube-controller-manager", "kube-scheduler", "kwok")
        for name in followers:  # side by side: each takes a second to fill its caches
            self.component(name).start()
        for name in followers:
            self._wait_ready(name)
        self._say(f"control plane ready at {self.url}; KUBECONFIG={self.kubeconfig}")

    def _close(self) -> None:
        # whoever writes goes first; nothing is worth a graceful end, the data go as well
        for component in reversed(self._components.values()):
            component.child.stop()

    @property
    def _authority(self) -> bytes:
        return (self.directory / "pki" / "ca.crt").read_bytes()

    def _kubeconfig_of(self, user: str) -> Path:
        return self.directory / f"{user.removeprefix('system:')}.kubeconfig"

    def _health(self, port: str, scheme: str = "https") -> str:
        path = "readyz" if port in ("api", "etcd", "kwok") else "healthz"
        return f"{scheme}://127.0.0.1:{self._ports[port]}/{path}"

    def _add(self, name: str, arguments: Sequence[str | Path], health: str) -> None:
        command = [self._programs[name], *arguments, *self._extra.get(name, ())]
        self._components[name] = Component(Child(name, command, self.logs / f"{name}.log"), health)

    def _wait_ready(self, name: str) -> None:
        child, health = self._components[name].child, self._components[name].health
        trust = ssl.create_default_context(cadata=self._authority.decode())
        try:
            eventually(
                lambda: _answers(health, trust),
                f"{name} ready",
                within=READY_SECONDS,
                every=0.05,
                give_up=lambda: None if child.running else "it ended",
            )
        except AssertionError as error:
            raise ClusterError(f"{name} did not become ready: {child.report()}") from error

    def _etcd(self) -> list[str | Path]:
        clients = f"http://127.0.0.1:{self._ports['etcd']}"
        peers = f"http://127.0.0.1:{self._ports['peer']}"
        return [
            "--name", "localcluster", "--data-dir", self.directory / "etcd",
            "--listen-client-urls", clients, "--advertise-client-urls", clients,
            "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
            "--initial-cluster", f"localcluster={peers}",
            "--unsafe-no-fsync", "--log-level", "warn",
        ]  # fmt: skip

    def _api_server(self, signing_key: Path, tls: Sequence[str | Path]) -> list[str | Path]:
        return [
            "--etcd-servers", f"http://127.0.0.1:{self._ports['etcd']}",
            "--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1",
            "--secure-port", str(self._ports["api"]), *tls,
            "--client-ca-file", self.directory / "pki" / "ca.crt",
            "--authorization-mode", "RBAC", "--allow-privileged",
            "--service-account-issuer", ISSUER,
            "--service-account-key-file", signing_key,
            "--service-account-signing-key-file", signing_key,
            "--service-cluster-ip-range", "10.96.0.0/16",
            "--endpoint-reconciler-type", "none",
        ]  # fmt: skip

    def _controller_manager(self, signing_key: Path, tls: Sequence[str | Path]) -> list[str | Path]:
        return [
            "--kubeconfig", self._kubeconfig_of("system:kube-controller-manager"),
            "--service-account-private-key-file", signing_key,
            "--root-ca-file", self.directory / "pki" / "ca.crt",
            "--use-service-account-credentials", "--leader-elect=false",
            "--flex-volume-plugin-dir", self.directory / "volume-plugins",  # else in /usr/libexec
            "--bind-address", "127.0.0.1", "--secure-port", str(self._ports["kcm"]), *tls,
            *FAST_CLIENT,
        ]  # fmt: skip

    def _scheduler(self, tls: Sequence[str | Path]) -> list[str | Path]:
        return [
            "--kubeconfig", self._kubeconfig_of("system:kube-scheduler"), "--leader-elect=false",
            "--bind-address", "127.0.0.1", "--secure-port", str(self._ports["scheduler"]), *tls,
            *FAST_CLIENT,
        ]  # fmt: skip


def _answers(url: str, trust: ssl.SSLContext) -> bool:
    context = trust if url.startswith("https") else None
    try:
        # any status beyond 2xx is an HTTPError, hence an OSError
        with urllib.request.urlopen(url, timeout=5, context=context):  # noqa: S310 - our own address
            return True
    except (OSError, http.client.HTTPException):
        return False
