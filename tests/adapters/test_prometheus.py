"""The Prometheus source: its one query, its answer by pod, and a server that fails in every way."""

import asyncio
import json

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st

from kvscale.adapters.prometheus import PrometheusSource
from kvscale.adapters.prometheus_query import TIME_LABEL, by_pod, escape, promql
from kvscale.adapters.sources import PrometheusSettings
from kvscale.core.engines.metrics import SERIES_NAMES, USAGE_NAMES
from kvscale.core.engines.vllm.metrics import KV_USAGE, RUNNING, WAITING
from kvscale.core.values import Known, Unknown
from kvscale.ports import MetricsTarget

NOW = 1_796_000_000.0
SERVER_NOW = 1_795_999_400.0
"""Ten minutes behind the operator's clock: only ages may be taken from the server."""
SETTINGS = PrometheusSettings("http://prometheus:9090")


class FakeClock:
    def now(self):
        return NOW

    async def sleep(self, seconds):
        raise AssertionError(seconds)


def target(pod="llama-0", ip="10.0.0.7", model=""):
    return MetricsTarget("team", pod, f"uid-{pod}", ip, 8000, "/metrics", model)


def scrape(pod="llama-0", ip="10.0.0.7", *, age=3.0, usage=0.5, job="pods"):
    """The elements of one engine's series and of its time, as an instant query returns them."""
    labels = {
        "namespace": "team", "pod": pod, "instance": f"{ip}:8000", "job": job,
        "engine": "0", "model_name": "llama",
    }  # fmt: skip
    values = {KV_USAGE: usage, RUNNING: 3, WAITING: 1}
    elements = [
        {"metric": labels | {"__name__": name}, "value": [SERVER_NOW, str(value)]}
        for name, value in values.items()
    ]
    time = {"metric": labels | {TIME_LABEL: "1"}, "value": [SERVER_NOW, str(SERVER_NOW - age)]}
    return [*elements, time]


class Server:
    """What the tests' Prometheus answers, and what it was asked."""

    def __init__(self):
        self.elements = []
        self.seen = []
        self.behave = self.vector
        self.released = asyncio.Event()

    async def answer(self, request):
        self.seen.append(request)
        return await self.behave(request)

    async def vector(self, _request):
        data = {"resultType": "vector", "result": self.elements}
        return web.json_response({"status": "success", "data": data})

    async def hang(self, request):
        await self.released.wait()
        return await self.vector(request)

    async def drip(self, request):
        """A byte now and then, for ever: every wait on the socket is short."""
        response = web.StreamResponse()
        await response.prepare(request)
        while not self.released.is_set():
            await response.write(b" ")
            await asyncio.sleep(0.02)
        return response

    async def flood(self, request):
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            for _ in range(1600):
                await response.write(b" " * 65_536)
        except ConnectionError:
            pass
        return response

    async def redirect(self, _request):
        return web.Response(status=302, headers={"Location": "/elsewhere"})


@pytest.fixture
async def server():
    return Server()


@pytest.fixture
async def url(server):
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    http = TestServer(app)
    await http.start_server()
    yield f"http://127.0.0.1:{http.port}"
    server.released.set()
    await http.close()


@pytest.fixture
def source_of(url):
    return lambda **settings: PrometheusSource(
        PrometheusSettings(url, **{"timeout_seconds": 60.0} | settings), FakeClock()
    )


async def one(source, asked=None):
    asked = asked or target()
    return (await source.collect([asked]))[asked.uid]


async def test_a_pod_is_read_with_its_age_and_the_servers_stamp(source_of, server):
    server.elements = scrape(age=3.0)
    pod = await one(source_of())
    assert isinstance(pod, Known)
    assert (pod.value[0].kv_usage, pod.value[0].running, pod.value[0].waiting) == (0.5, 3, 1)
    assert pod.at == NOW - 3.0
    assert pod.stamp == SERVER_NOW - 3.0


async def test_one_query_serves_any_number_of_pods_and_pools(source_of, server):
    server.elements = [one for n in range(50) for one in scrape(f"llama-{n}")]
    found = await source_of().collect([target(f"llama-{n}") for n in range(50)])
    assert all(isinstance(pod, Known) for pod in found.values())
    assert len(server.seen) == 1
    await source_of().collect([target()])
    first, second = (request.query["query"] for request in server.seen)
    assert first == second


async def test_no_pods_cost_no_query(source_of, server):
    assert await source_of().collect([]) == {}
    assert server.seen == []


async def test_series_of_pods_that_nobody_asked_for_change_nothing(source_of, server):
    server.elements = scrape()
    alone = await one(source_of())
    server.elements = scrape("ghost", usage=0.9) + scrape() + scrape("llama-00", usage=0.1)
    assert await one(source_of()) == alone


async def test_series_of_an_earlier_pod_of_the_same_name_are_dropped(source_of, server):
    server.elements = scrape(ip="10.0.0.6", usage=0.9, age=1.0) + scrape(usage=0.2, age=9.0)
    assert (await one(source_of())).value[0].kv_usage == 0.2


async def test_only_series_of_an_earlier_pod_are_no_sample(source_of, server):
    server.elements = scrape(ip="10.0.0.6")
    assert (await one(source_of())).reason == "OtherInstance"
    assert (await one(source_of(), target(ip=""))).reason == "NoPodIP"


async def test_where_instances_are_not_compared_the_newest_scrape_counts(source_of, server):
    server.elements = scrape(ip="127.0.0.1", age=20.0) + scrape(ip="127.0.0.2", usage=0.7, age=2.0)
    assert (await one(source_of(instance_label=""), target(ip=""))).value[0].kv_usage == 0.7


async def test_a_host_name_as_instance_is_no_proof_against_a_pod(source_of, server):
    server.elements = scrape(ip="llama-0.llama.team.svc")
    assert isinstance(await one(source_of()), Known)


async def test_ipv6_instances_are_compared_in_any_spelling(source_of, server):
    server.elements = scrape(ip="[FD00:0::7]")
    assert isinstance(await one(source_of(), target(ip="fd00::7")), Known)


async def test_a_pod_that_two_jobs_scrape_is_read_from_the_newer_one(source_of, server):
    server.elements = scrape(job="a", usage=0.1, age=14.0) + scrape(job="b", usage=0.6, age=4.0)
    pod = await one(source_of())
    assert (pod.value[0].kv_usage, pod.at) == (0.6, NOW - 4.0)


async def test_facts_that_carry_no_model_are_joined_by_the_targets_labels(source_of, server):
    info = {"namespace": "team", "pod": "llama-0", "instance": "10.0.0.7:8000", "job": "pods"}
    info |= {"engine": "0", "num_gpu_blocks": "4000", "__name__": "vllm:cache_config_info"}
    server.elements = [*scrape(), {"metric": info, "value": [SERVER_NOW, "1"]}]
    assert (await one(source_of())).value[0].kv_blocks == 4000


async def test_a_pod_without_series_is_told_what_to_check(source_of, server):
    server.elements = scrape("other")
    result = await one(source_of())
    assert result.reason == "NoEngineSeries"
    assert "PodMonitor" in result.message


async def test_an_empty_answer_is_no_load_of_zero(source_of):
    assert (await one(source_of())).reason == "NoEngineSeries"


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "1.5"])
async def test_an_impossible_value_is_unknown(source_of, server, value):
    server.elements = scrape(usage=value)
    assert (await one(source_of())).reason == "InvalidSeries"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 429, 500, 503])
async def test_an_error_is_unknown_for_every_pod_by_its_code_alone(source_of, server, status):
    async def fail(_request):
        return web.Response(status=status, text="s3cret")

    server.behave = fail
    found = await source_of().collect([target("a"), target("b")])
    assert set(found.values()) == {Unknown("PrometheusHTTPError", f"HTTP {status}")}
    assert len(server.seen) == 1  # no retry: the next round asks anew


async def test_a_redirect_is_not_followed(source_of, server):
    server.behave = server.redirect
    assert await one(source_of()) == Unknown("PrometheusHTTPError", "HTTP 302")
    assert len(server.seen) == 1


@pytest.mark.parametrize("behaviour", ["hang", "drip"])
async def test_a_slow_server_is_unknown_in_time(source_of, server, behaviour):
    server.behave = getattr(server, behaviour)
    source = source_of(timeout_seconds=0.2)
    assert (await one(source)).reason == "PrometheusTimeout"


async def test_a_late_query_blocks_the_next_until_it_has_ended(source_of, server):
    server.behave = server.hang
    source = source_of(timeout_seconds=0.2)
    source._running = asyncio.create_task(server.released.wait())
    assert (await one(source)).message == "the previous query has not ended yet"
    assert server.seen == []
    server.released.set()
    await source._running
    server.elements = scrape()
    assert isinstance(await one(source), Known)


async def test_a_flood_is_cut_off(source_of, server):
    server.behave = server.flood
    result = await one(source_of(max_body_bytes=1_000_000))
    assert result == Unknown("PrometheusTooLarge", "over 1000000 bytes")


async def test_more_series_than_allowed_are_unknown(source_of, server):
    server.elements = scrape()
    assert (await one(source_of(max_series=3))).reason == "TooManySeries"
    assert server.seen[0].query["limit"] == "4"


BAD_ELEMENTS = [
    7, {}, {"metric": {}}, {"metric": {}, "value": []}, {"metric": [], "value": [1, "1"]},
    {"metric": {"pod": 5, "__name__": KV_USAGE}, "value": [1, "1"]},
    {"metric": {}, "value": [1, "1"]}, {"metric": {"__name__": KV_USAGE}, "value": [1, 1]},
    {"metric": {"__name__": KV_USAGE}, "value": ["1", "1"]},
    {"metric": {"__name__": KV_USAGE}, "value": [1, "s3cret"]},
    {"metric": {TIME_LABEL: "1"}, "value": [1, "NaN"]},
]  # fmt: skip
BODIES = [
    "", "<html>s3cret</html>", "[]", "7", "null", "{}", '{"data": 7}', '{"data": {"result": 7}}',
    "[" * 100_000,
    *(json.dumps({"data": {"result": [element]}}) for element in BAD_ELEMENTS),
]  # fmt: skip


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body[:50])
async def test_an_answer_that_is_none_is_unknown_and_never_quoted(source_of, server, body):
    async def answer(_request):
        return web.Response(text=body)

    server.behave = answer
    result = await one(source_of())
    assert result.reason == "PrometheusMalformed"
    assert "s3cret" not in result.message


async def test_a_refused_connection_is_unknown():
    source = PrometheusSource(PrometheusSettings("http://127.0.0.1:9"), FakeClock())
    assert await one(source) == Unknown("PrometheusUnreachable", "NewConnectionError")


async def test_a_token_is_read_anew_for_every_query(source_of, server, tmp_path):
    token = tmp_path / "token"
    source = source_of(bearer_token_file=token, headers=(("X-Scope-OrgID", "team"),))
    token.write_text("first\n")
    await one(source)
    token.write_text("second\n")
    await one(source)
    sent = [request.headers["Authorization"] for request in server.seen]
    assert sent == ["Bearer first", "Bearer second"]
    assert server.seen[0].headers["X-Scope-OrgID"] == "team"


@pytest.mark.parametrize("content", [None, "", " \n", "a b", "a\nX-Evil: 1", "\xe9"])
async def test_a_token_that_is_none_is_unknown_and_nothing_is_sent(
    source_of, server, tmp_path, content
):
    token = tmp_path / "token"
    if content is not None:
        token.write_text(content)
    result = await one(source_of(bearer_token_file=token))
    assert result.reason == "PrometheusToken"
    assert server.seen == []


async def test_a_missing_ca_file_is_unknown(url, tmp_path):
    https = url.replace("http:", "https:")
    settings = PrometheusSettings(https, ca_file=tmp_path / "none.pem")
    result = await one(PrometheusSource(settings, FakeClock()))
    assert result.reason == "PrometheusUnreachable"


async def test_a_path_prefix_is_kept(source_of, server, url):
    source = PrometheusSource(PrometheusSettings(f"{url}/prom/"), FakeClock())
    await one(source)
    assert server.seen[0].path == "/prom/api/v1/query"


async def test_the_environments_proxy_is_not_used(source_of, server, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    server.elements = scrape()
    assert isinstance(await one(source_of()), Known)


def test_the_query_names_every_series_and_forces_every_matcher():
    text = promql((("cluster", 'a"b'),))
    assert all(name in text for name in SERIES_NAMES)
    assert text.count('cluster="a\\"b"') == 1 + len(USAGE_NAMES) == text.count("{")


@given(st.text())
def test_no_matcher_value_leaves_its_quotes(value):
    inside = escape(value)
    decoded, rest = [], iter(inside)
    for char in rest:
        assert char not in '"\n'
        escaped = next(rest) if char == "\\" else ""
        decoded.append({"n": "\n", "\\": "\\", '"': '"'}[escaped] if escaped else char)
    assert "".join(decoded) == value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["metric", "value", "__name__", TIME_LABEL, "pod", "namespace"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(JSON, max_size=4))
def test_elements_of_any_shape_are_sorted_or_refused(elements):
    try:
        pods = by_pod(elements, SETTINGS)
    except (ValueError, KeyError, TypeError, AttributeError):
        return
    assert all(pod.age_seconds >= 0 for scrapes in pods.values() for pod in scrapes)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"url": "prometheus:9090"}, "Prometheus URL"),
        ({"url": "ftp://prometheus"}, "Prometheus URL"),
        ({"url": "http://"}, "Prometheus URL"),
        ({"url": "http://user:pw@prometheus"}, "bearer token file"),
        ({"url": "http://prometheus/?q=1"}, "Prometheus URL"),
        ({"url": "http://prometheus:port"}, "Prometheus URL"),
        ({"namespace_label": "name space"}, "label name"),
        ({"matchers": (('a"} or vector(1', "b"),)}, "label name"),
        ({"timeout_seconds": 0.0}, "timeout_seconds"),
        ({"max_series": 0}, "max_series"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_by_name(changes, named):
    with pytest.raises(ValueError, match=named):
        PrometheusSettings(**({"url": "http://prometheus:9090"} | changes))
