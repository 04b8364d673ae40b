"""The user's two objects, taken from examples/, with what only the demo needs added."""

from dataclasses import dataclass
from typing import Any

import yaml

from demo.story import (
    FACTOR,
    GPUS_PER_NODE,
    NODES,
    PRODUCT,
    ROOT,
    SHUTDOWN_SECONDS,
    STARTUP_SECONDS,
)
from kvscale.adapters.kubernetes.project import project_workload
from kvscale.api.parse import parse_pool
from kvscale.app.plan import Plan, plan
from kvscale.core.refusal import Refusal
from kvscale.core.values import Unknown
from localcluster import nodes

NAMESPACE = "demo"
SERVER = ROOT / "examples" / "vllm-llama-3.1-8b-l4.yaml"
POOL = ROOT / "examples" / "smallest.yaml"

SCALING: dict[str, Any] = {
    "maxReplicas": NODES * GPUS_PER_NODE,
    "behavior": {
        "scaleDown": {
            "stabilizationWindowSeconds": 120,
            "policies": [{"type": "Pods", "value": 1, "periodSeconds": 30}],
        }
    },
}
"""The default removes one pod in five minutes, too slowly to be watched; the rest is as it is."""


class DemoError(RuntimeError):
    """The demo cannot be played; the message says why."""


@dataclass(frozen=True, slots=True)
class Objects:
    """What is applied, and what `kvscale plan` says of it before anything runs."""

    server: dict[str, Any]
    pool: dict[str, Any]
    plan: Plan

    @property
    def served_model_name(self) -> str:
        """As the server's metrics carry it."""
        return str(self.pool["metadata"]["name"])


def objects() -> Objects:
    """The Deployment of vLLM and the InferencePool that scales it.

    Raises:
        DemoError: the pool cannot be sized.
    """
    server = yaml.safe_load(SERVER.read_text(encoding="utf-8"))
    pool = yaml.safe_load(POOL.read_text(encoding="utf-8"))
    server["metadata"]["namespace"] = pool["metadata"]["namespace"] = NAMESPACE
    # kwok's stages run in real time, the rest of the demo on its own clock
    server["spec"]["template"]["metadata"]["annotations"] = {
        nodes.STARTUP_SECONDS: f"{STARTUP_SECONDS / FACTOR:g}",
        nodes.SHUTDOWN_SECONDS: f"{SHUTDOWN_SECONDS / FACTOR:g}",
    }
    pool["spec"]["scaling"] = SCALING
    return Objects(server, pool, _plan(server, pool))


def _plan(server: dict[str, Any], pool: dict[str, Any]) -> Plan:
    spec = parse_pool(pool["spec"])
    if isinstance(spec, Unknown):
        raise DemoError(f"{POOL.name}: {spec.message}")
    created = {**server, "metadata": {**server["metadata"], "uid": "not-created"}}
    workload = project_workload(server["kind"], created)
    made = plan(pool["metadata"]["name"], spec, workload=workload, gpu=PRODUCT)
    if isinstance(made, Refusal):
        raise DemoError(f"{SERVER.name}: {made.message}")
    return made
