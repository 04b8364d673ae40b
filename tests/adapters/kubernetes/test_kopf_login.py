"""kopf's connection is the client's own: it must not fall back to nobody."""

import json

from kvscale.adapters.kubernetes.configuration import load_configuration
from kvscale.adapters.kubernetes.kopf_login import connection_info


def configured(tmp_path, user):
    """The configuration that a kubeconfig with this user gives."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443"}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(document))
    return load_configuration(str(path))


def test_a_token_is_passed_on(tmp_path):
    info = connection_info(configured(tmp_path, {"token": "abc.def"}))
    assert (info["scheme"], info["token"]) == ("Bearer", "abc.def")
    assert info["server"] == "https://127.0.0.1:6443"


def test_without_a_token_there_is_none(tmp_path):
    info = connection_info(configured(tmp_path, {}))
    assert (info["scheme"], info["token"]) == (None, None)
