"""The way through Prometheus, end to end: a real server scrapes, the operator asks it."""

import shutil

import pytest

from localcluster.processes import Child, free_ports
from support.engine_pages import Load
from support.operator_rig import Account, Operator

AT_MOST_TWO = {"maxReplicas": 2}
CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
- job_name: pods
  http_sd_configs: [{{url: "{url}/targets", refresh_interval: 1s}}]
"""


@pytest.fixture
def prometheus(engines, tmp_path):
    """The distribution's (apt-get install prometheus) or any on the PATH; data of this test."""
    binary = shutil.which("prometheus")
    if binary is None:
        pytest.skip("no prometheus on the PATH (Debian: apt-get install prometheus)")
    configuration = tmp_path / "prometheus.yml"
    configuration.write_text(CONFIG.format(url=engines.url))
    (port,) = free_ports(1)
    child = Child(
        "prometheus",
        [
            binary,
            f"--config.file={configuration}",
            f"--storage.tsdb.path={tmp_path / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        tmp_path / "prometheus.log",
    )
    child.url = f"http://127.0.0.1:{port}"
    child.start()
    yield child
    child.stop()


def test_it_scales_by_prometheus_and_holds_while_prometheus_is_away(
    control_plane, engines, prometheus, target, tmp_path
):
    arguments = (
        "--metrics-source=prometheus",
        f"--prometheus-url={prometheus.url}",
        f"--scrape-url-template={engines.template}",
    )
    with Account(control_plane) as account, Operator(account, tmp_path, *arguments) as operator:
        engines.show(target.namespace, Load(used=400, running=20))
        target.deploy().declare(scaling=AT_MOST_TWO)
        unseen = target.until_condition("MetricsAvailable", "False", "NoEngineSeries")
        assert "Prometheus has no usage series of an engine" in unseen["message"]
        (pod,) = target.pods()
        engines.announce(target.namespace, {pod["metadata"]["name"]: pod["status"]["podIP"]})
        target.until_condition("MetricsAvailable", "True", "Fresh")
        assert target.status()["demand"]["occupancyPercent"] == 40
        engines.show(target.namespace, Load(used=1000, running=40))
        target.until_replicas(2)

        prometheus.stop()
        target.until_condition("MetricsAvailable", "False", "PrometheusUnreachable")
        status = target.until(
            lambda it: (s := it.status())["decision"]["reason"] == "HoldOnUnknown" and s, "hold"
        )
        assert status["replicas"]["desired"] == target.replicas() == 2
        ready = target.condition("Ready")
        assert (ready["status"], operator.round_done()) == ("True", True)

        prometheus.start()
        target.until_condition("MetricsAvailable", "True")
