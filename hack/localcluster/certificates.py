"""A certificate authority for one cluster's life, by the openssl command.

Keys are on the P-256 curve: making eight of them takes milliseconds, RSA seconds.
"""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
LIFETIME = ("-days", "30")


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, PEM files."""

    certificate: Path
    key: Path


class CertificateError(RuntimeError):
    """openssl is missing or refused."""


class Authority:
    """Issues what the control plane and its clients need, into one folder."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self.root = self._pair("ca")
        _openssl(
            "req", "-x509", *KEY, *LIFETIME, "-subj", "/CN=localcluster",
            "-keyout", self.root.key, "-out", self.root.certificate,
        )  # fmt: skip

    def server(self, name: str) -> Pair:
        """For a server on this machine: 127.0.0.1 and the names by which pods call the API."""
        names = "IP:127.0.0.1,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default.svc"
        extensions = f"subjectAltName={names}\nextendedKeyUsage=serverAuth\n"
        return self._issue(name, f"/CN={name}", extensions)

    def client(self, user: str, group: str = "") -> Pair:
        """For a client: Kubernetes takes the user from CN and the group from O."""
        subject = (f"/O={group}" if group else "") + f"/CN={user}"
        return self._issue(user.replace(":", "-"), subject, "extendedKeyUsage=clientAuth\n")

    def signing_key(self, name: str) -> Path:
        """A key without a certificate, to sign service account tokens."""
        path = self._pair(name).key
        # the older SEC 1 form: the API server does not read an EC key in PKCS #8 here
        _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", path)
        return path

    def _issue(self, name: str, subject: str, extensions: str) -> Pair:
        pair = self._pair(name)
        request = self._directory / f"{name}.csr"
        extension_file = self._directory / f"{name}.ext"
        extension_file.write_text(extensions)
        _openssl("req", "-new", *KEY, "-subj", subject, "-keyout", pair.key, "-out", request)
        _openssl(
            "x509", "-req", *LIFETIME, "-in", request, "-extfile", extension_file,
            "-CA", self.root.certificate, "-CAkey", self.root.key, "-CAcreateserial",
            "-out", pair.certificate,
        )  # fmt: skip
        return pair

    def _pair(self, name: str) -> Pair:
        return Pair(self._directory / f"{name}.crt", self._directory / f"{name}.key")


def _openssl(*arguments: str | Path) -> None:
    program = shutil.which("openssl")
    if not program:
        raise CertificateError("openssl is not on PATH: install it (package `openssl`)")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise CertificateError(f"openssl {arguments[0]} failed: {done.stderr.strip()}")
