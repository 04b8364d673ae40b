"""`kvscale explain` against an API server that stores one pool and its Deployment."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvscale.cli.app import app
from kvscale.cli.output import run

MANIFEST = Path(__file__).parents[2] / "examples" / "vllm-llama-3.1-8b-l4.yaml"
POOL_PATH = "/apis/kvscale.io/v1alpha1/namespaces/default/inferencepools/llama"
WORKLOAD_PATH = "/apis/apps/v1/namespaces/default/deployments/llama"
STATUS = {
    "mode": "Auto",
    "decision": {"reason": "Steady", "message": "enough", "bindingBound": "KV"},
    "effective": {"device": {"product": "NVIDIA-L4"}},
}


def deployment() -> dict[str, Any]:
    objects = [one for one in yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8")) if one]
    raw: dict[str, Any] = next(one for one in objects if one["kind"] == "Deployment")
    raw["metadata"] = {"namespace": "default", "uid": "u", **raw["metadata"]}
    return raw


@pytest.fixture
def stored() -> dict[str, Any]:
    pool = {"spec": {"targets": [{"ref": {"name": "llama"}}]}, "status": STATUS}
    return {POOL_PATH: pool, WORKLOAD_PATH: deployment()}


@pytest.fixture
def kubeconfig(stored: dict[str, Any], tmp_path: Path) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = stored.get(self.path)
            body = json.dumps(found or {"kind": "Status", "reason": "NotFound"}).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    config = {
        "clusters": [
            {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
        ],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    yield str(file)
    server.shutdown()
    server.server_close()


def test_it_says_what_to_change_instead_of_scaling(
    kubeconfig: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(app, ["explain", "default/llama", "--kubeconfig", kubeconfig]) == 0
    out = capsys.readouterr().out
    assert "Steady: enough" in out
    advice = out[out.index("What to change instead of scaling") :]
    assert "--kv-cache-dtype fp8" in advice


def test_for_scripts_it_is_the_status_alone(
    kubeconfig: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(app, ["explain", "default/llama", "--kubeconfig", kubeconfig, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == STATUS


def test_without_the_workload_the_rest_is_still_explained(
    kubeconfig: str, stored: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    del stored[WORKLOAD_PATH]
    assert run(app, ["explain", "default/llama", "--kubeconfig", kubeconfig]) == 0
    out = capsys.readouterr().out
    assert "Steady: enough" in out
    assert "not known  Deployment default/llama cannot be read" in out
