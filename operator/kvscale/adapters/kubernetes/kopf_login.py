"""The same API server and identity for kopf's own watch, as keyword arguments of its login.

kopf's type is not named here: kopf lives in `handlers` alone.
"""

from typing import Any

from kubernetes.client import Configuration


def connection_info(configuration: Configuration) -> dict[str, Any]:
    """Arguments of `kopf.ConnectionInfo`: server, authority, and one of token or certificate."""
    scheme, token = "Bearer", None
    # Named as the client itself names it (kubernetes 37 client/configuration.py, auth_settings).
    header = configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
    if header:
        first, _, rest = header.partition(" ")
        scheme, token = (first, rest) if rest else ("Bearer", first)
    return {
        "server": configuration.host,
        "ca_path": configuration.ssl_ca_cert,
        "insecure": not configuration.verify_ssl,
        "username": configuration.username or None,
        "password": configuration.password or None,
        "scheme": scheme if token else None,
        "token": token,
        "certificate_path": configuration.cert_file,
        "private_key_path": configuration.key_file,
    }
