"""The Prometheus source against a real Prometheus that scrapes simulated pods.

The binary is the distribution's (`apt-get install prometheus`) or any on the PATH; its data and
configuration are the test's own.
"""

import asyncio
import shutil
import socket
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from kvscale.adapters.clock import SystemClock
from kvscale.adapters.prometheus import PrometheusSource
from kvscale.adapters.sources import PrometheusSettings
from kvscale.core.values import Known, Unknown
from kvscale.ports import MetricsTarget

pytestmark = pytest.mark.cluster

PAGE = (Path(__file__).parents[1] / "data" / "metrics" / "vllm_v1_two_engines.prom").read_text()
SKEW = 600.0
PATIENCE = 60.0
CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
- job_name: pods
  http_sd_configs: [{{url: "http://127.0.0.1:{port}/targets", refresh_interval: 1s}}]
"""


class SkewedClock(SystemClock):
    """The operator's clock, ten minutes ahead of the server's."""

    def now(self):
        return super().now() + SKEW


class Fleet:
    """Pods that exist for Prometheus, and what they show."""

    def __init__(self):
        self.pods = {}
        self.usage = 0.8125
        self.failing = set()
        self.app = web.Application()
        self.app.router.add_get("/targets", self._targets)
        self.app.router.add_get("/{pod}/{ip}/metrics", self._metrics)

    async def _targets(self, request):
        return web.json_response(
            [
                {
                    "targets": [f"127.0.0.1:{request.url.port}"],
                    "labels": {
                        "namespace": "team",
                        "pod": pod,
                        "instance": f"{ip}:8000",
                        "__metrics_path__": f"/{pod}/{ip}/metrics",
                    },
                }
                for pod, ip in self.pods.items()
            ]
        )

    async def _metrics(self, request):
        if request.match_info["pod"] in self.failing:
            return web.Response(status=500)
        return web.Response(text=PAGE.replace(" 0.8125", f" {self.usage}"))


class Prometheus:
    """One server process on one data directory and one port."""

    def __init__(self, binary, folder, sd_port):
        self._binary = binary
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._folder = folder
        self._process = None
        (folder / "prometheus.yml").write_text(CONFIG.format(port=sd_port))

    async def start(self):
        with (self._folder / "log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                self._binary,
                f"--config.file={self._folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={self._folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{self.port}",
                stdout=log,
                stderr=log,
            )

    async def stop(self):
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
            await self._process.wait()


@pytest.fixture
async def fleet():
    return Fleet()


@pytest.fixture
async def prometheus(fleet, tmp_path):
    binary = shutil.which("prometheus")
    if binary is None:
        pytest.skip("no prometheus on the PATH (Debian: apt-get install prometheus)")
    http = TestServer(fleet.app)
    await http.start_server()
    server = Prometheus(binary, tmp_path, http.port)
    await server.start()
    yield server
    await server.stop()
    await http.close()


@pytest.fixture
def source(prometheus):
    settings = PrometheusSettings(f"http://127.0.0.1:{prometheus.port}")
    return PrometheusSource(settings, SkewedClock())


def target(pod, ip):
    return MetricsTarget("team", pod, f"uid-{pod}", ip, 8000, "/metrics")


async def until(source, asked, condition):
    """The first answer of the source that meets the condition."""
    async with asyncio.timeout(PATIENCE):
        while True:
            answer = (await source.collect([asked]))[asked.uid]
            if condition(answer):
                return answer
            await asyncio.sleep(0.05)


def is_known(answer):
    return isinstance(answer, Known)


def is_unknown(reason):
    return lambda answer: isinstance(answer, Unknown) and answer.reason == reason


async def test_samples_come_with_their_age_on_the_operators_clock(source, fleet):
    fleet.pods = {"llama-0": "10.0.0.7"}
    asked = target("llama-0", "10.0.0.7")
    before = SkewedClock().now()
    first = await until(source, asked, is_known)
    after = SkewedClock().now()
    assert before <= first.at <= after
    assert first.at - first.stamp == pytest.approx(SKEW, abs=5.0)
    zero, one = first.value
    assert (zero.engine, zero.kv_usage, zero.running, zero.waiting) == ("0", 0.8125, 37, 9)
    assert (zero.kv_blocks, zero.kv_cache_size_tokens, zero.block_tokens) == (4000, 64000, 16)
    assert (zero.generation_tokens_total, zero.prefix_hits_total) == (611034.0, 1204224.0)
    assert one.kv_usage == 0.25


async def test_values_and_stamps_of_one_answer_belong_together(source, fleet):
    fleet.pods = {"llama-0": "10.0.0.7"}
    asked = target("llama-0", "10.0.0.7")
    seen = {}
    for usage in (0.125, 0.5, 0.75):
        fleet.usage = usage
        newest = await until(
            source,
            asked,
            lambda answer: is_known(answer) and answer.value[0].kv_usage == fleet.usage,
        )
        assert seen.setdefault(newest.stamp, newest.value) == newest.value
    assert len(seen) == 3


async def test_a_pod_is_never_given_the_samples_of_its_predecessor(source, fleet):
    fleet.pods = {"llama-0": "10.0.0.7"}
    await until(source, target("llama-0", "10.0.0.7"), is_known)
    asked = target("llama-0", "10.0.0.8")
    assert (await source.collect([asked]))[asked.uid].reason == "OtherInstance"
    fleet.usage = 0.25
    fleet.pods = {"llama-0": "10.0.0.8"}
    newest = await until(source, asked, is_known)
    assert newest.value[0].kv_usage == 0.25


async def test_a_pod_that_stops_answering_becomes_unknown_and_comes_back(source, fleet):
    fleet.pods = {"llama-0": "10.0.0.7", "llama-1": "10.0.0.8"}
    asked, healthy = target("llama-0", "10.0.0.7"), target("llama-1", "10.0.0.8")
    before = await until(source, asked, is_known)
    fleet.failing = {"llama-0"}
    await until(source, asked, is_unknown("NoEngineSeries"))
    await until(source, healthy, is_known)
    fleet.failing = set()
    after = await until(source, asked, is_known)
    assert after.stamp > before.stamp


async def test_an_outage_is_unknown_and_old_samples_stay_old_after_it(source, fleet, prometheus):
    fleet.pods = {"llama-0": "10.0.0.7"}
    asked = target("llama-0", "10.0.0.7")
    before = await until(source, asked, is_known)
    await prometheus.stop()
    down = (await source.collect([asked]))[asked.uid]
    assert (down.reason, down.message) == ("PrometheusUnreachable", "NewConnectionError")
    stopped = SkewedClock().now()
    fleet.failing = {"llama-0"}
    await prometheus.start()
    answer = await until(source, asked, lambda pod: not is_unknown("PrometheusUnreachable")(pod))
    if is_known(answer):  # the store's last sample, until the first scrape marks it stale
        assert answer.at < stopped
    fleet.failing = set()
    after = await until(source, asked, lambda pod: is_known(pod) and pod.at > stopped)
    assert after.stamp > before.stamp


async def test_matchers_narrow_the_answer(prometheus, fleet, source):
    fleet.pods = {"llama-0": "10.0.0.7"}
    asked = target("llama-0", "10.0.0.7")
    await until(source, asked, is_known)
    url = f"http://127.0.0.1:{prometheus.port}"
    for job, expected in (("pods", True), ('other"} or {job="pods', False)):
        narrowed = PrometheusSource(
            PrometheusSettings(url, matchers=(("job", job),)), SkewedClock()
        )
        assert is_known((await narrowed.collect([asked]))[asked.uid]) is expected
