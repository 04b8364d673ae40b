"""Where a pod's metrics are, by the engine that it runs."""

import pytest

from kvscale.app.parts import metrics_target
from kvscale.app.resolve import Resolution
from kvscale.core.engines.config import EngineConfig, EngineKind
from kvscale.core.spec import MetricsSpec
from kvscale.core.values import Unknown
from kvscale.records import PodRecord

UNKNOWN = Unknown("X", "")


def pod():
    fields = dict.fromkeys(PodRecord.__dataclass_fields__)
    return PodRecord(
        **{**fields, "namespace": "default", "name": "p", "uid": "u", "ip": "10.0.0.1"}
    )


def found(kind, port=None):
    return Resolution(
        shape=UNKNOWN, engine=EngineConfig(kind=kind), device=UNKNOWN, device_resource=None,
        devices_per_pod=None, port=port,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "port", "path"),
    [
        (EngineKind.VLLM, 8000, "/metrics"),
        (EngineKind.SGLANG, 30_000, "/metrics"),
        (EngineKind.TENSORRT_LLM, 8000, "/prometheus/metrics"),
    ],
)
def test_the_engine_decides_what_nobody_states(kind, port, path):
    target = metrics_target(pod(), MetricsSpec(), found(kind))
    assert (target.port, target.path) == (port, path)
    stated = metrics_target(pod(), MetricsSpec(port=1, path="/m"), found(kind, port=9))
    assert (stated.port, stated.path) == (1, "/m")
    assert metrics_target(pod(), MetricsSpec(), found(kind, port=9)).port == 9
    assert metrics_target(pod(), MetricsSpec(), None).path == "/metrics"
