"""Writing kubeconfig files (JSON, which every reader of YAML accepts)."""

import base64
import json
from pathlib import Path

from localcluster.certificates import Pair


def write_kubeconfig(
    path: Path,
    server: str,
    authority: bytes,
    *,
    client: Pair | None = None,
    token: str = "",
    namespace: str = "default",
) -> Path:
    """Write a kubeconfig with everything inside, so that the file may be moved.

    Args:
        path: where to; readable by the owner alone.
        server: URL of the API server.
        authority: the CA's certificate, PEM.
        client: certificate and key of the user, or
        token: its bearer token.
        namespace: default namespace of the context.
    """
    user: dict[str, str] = {}
    if client:
        user["client-certificate-data"] = _inline(client.certificate.read_bytes())
        user["client-key-data"] = _inline(client.key.read_bytes())
    if token:
        user["token"] = token
    cluster = {"server": server, "certificate-authority-data": _inline(authority)}
    context = {"cluster": "localcluster", "user": "user", "namespace": namespace}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "localcluster", "cluster": cluster}],
        "users": [{"name": "user", "user": user}],
        "contexts": [{"name": "localcluster", "context": context}],
        "current-context": "localcluster",
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(document, indent=1))
    return path


def _inline(content: bytes) -> str:
    return base64.b64encode(content).decode()
