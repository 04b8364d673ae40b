"""The direct scrape against a local server that serves, hangs, lies and floods."""

import asyncio
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from kvscale.adapters.scrape import ScrapeSource, target_url
from kvscale.adapters.sources import ScrapeSettings
from kvscale.core.values import Known, Unknown
from kvscale.ports import MetricsTarget

PAGE = (Path(__file__).parents[1] / "data" / "metrics" / "vllm_v1_two_engines.prom").read_bytes()
NOW = 1_796_000_000.0


class FakeClock:
    def now(self):
        return NOW

    async def sleep(self, seconds):
        raise AssertionError(seconds)


def target(pod="llama-0", ip="10.0.0.7", **changes):
    given = {"port": 8000, "path": "/metrics", "served_model_name": "", "namespace": "team"}
    return MetricsTarget(pod=pod, uid=f"uid-{pod}", pod_ip=ip, **(given | changes))


class Pods:
    """A server in place of all pods; each pod's name says how it behaves."""

    def __init__(self):
        self.seen = []
        self.together = 0
        self.most_together = 0
        self.sent = 0
        self.released = asyncio.Event()

    async def answer(self, request):
        self.seen.append(request)
        self.together += 1
        self.most_together = max(self.most_together, self.together)
        try:
            return await getattr(self, request.match_info["pod"].rpartition("-")[0])(request)
        finally:
            self.together -= 1

    async def llama(self, _request):
        await asyncio.sleep(0)
        return web.Response(body=PAGE)

    async def hang(self, _request):
        await self.released.wait()
        return web.Response(body=PAGE)

    async def error(self, _request):
        return web.Response(status=500, text="s3cret")

    async def redirect(self, _request):
        return web.Response(status=302, headers={"Location": "/team/llama-0/metrics"})

    async def empty(self, _request):
        return web.Response(body=b"")

    async def html(self, _request):
        return web.Response(text="<html>s3cret</html>", content_type="text/html")

    async def squeezed(self, _request):
        response = web.Response(body=b"\x1f\x8b")
        response.headers["Content-Encoding"] = "gzip"
        return response

    async def cut(self, request):
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(PAGE[:500])
        request.transport.abort()
        return response

    async def flood(self, request):
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            for _ in range(1600):
                await response.write(b"# " + b"x" * 65_533 + b"\n")
                self.sent += 65_536
        except ConnectionError:
            pass
        return response


@pytest.fixture
async def pods():
    return Pods()


@pytest.fixture
async def server(pods):
    app = web.Application()
    app.router.add_get("/{namespace}/{pod}/metrics", pods.answer)
    server = TestServer(app)
    await server.start_server()
    yield server
    pods.released.set()
    await server.close()


@pytest.fixture
async def source_of(server):
    sources = []

    def make(**settings):
        template = f"http://127.0.0.1:{server.port}/{{namespace}}/{{pod}}{{path}}"
        patient = {"timeout_seconds": 60.0, "deadline_seconds": 60.0}
        sources.append(ScrapeSource(ScrapeSettings(template, **patient | settings), FakeClock()))
        return sources[-1]

    yield make
    for source in sources:
        await source.close()


async def one(source, pod):
    return (await source.collect([target(pod)]))[f"uid-{pod}"]


async def test_a_pod_is_read_and_its_sample_bears_the_time_of_the_read(source_of):
    pod = await one(source_of(), "llama-0")
    assert isinstance(pod, Known)
    assert [engine.kv_usage for engine in pod.value] == [0.8125, 0.25]
    assert (pod.at, pod.stamp) == (NOW, NOW)


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        ("error-0", "ScrapeHTTPError"),
        ("redirect-0", "ScrapeRedirected"),
        ("empty-0", "NoEngineSeries"),
        ("html-0", "MalformedMetrics"),
        ("squeezed-0", "ScrapeEncoding"),
        ("cut-0", "ScrapeFailed"),
    ],
)
async def test_a_bad_answer_is_unknown_by_its_kind_and_never_quoted(source_of, pod, reason):
    result = await one(source_of(), pod)
    assert isinstance(result, Unknown)
    assert result.reason == reason
    assert "s3cret" not in result.message


async def test_a_redirect_is_not_followed(source_of, pods):
    await one(source_of(), "redirect-0")
    assert len(pods.seen) == 1


async def test_a_flood_is_cut_off_at_the_limit(source_of, pods):
    result = await one(source_of(), "flood-0")
    assert result == Unknown("ScrapeTooLarge", "over 5000000 bytes")
    assert pods.sent < 100_000_000


async def test_a_pod_that_hangs_is_unknown_and_the_others_are_read(source_of):
    source = source_of(timeout_seconds=0.2)
    found = await source.collect([target("hang-0"), target("llama-0")])
    assert found["uid-hang-0"].reason == "ScrapeTimeout"
    assert isinstance(found["uid-llama-0"], Known)


async def test_the_round_ends_at_its_deadline_and_answers_for_every_pod(source_of):
    source = source_of(concurrency=1, timeout_seconds=60.0, deadline_seconds=0.2)
    found = await source.collect([target("hang-0"), target("llama-0")])
    assert {pod.reason for pod in found.values()} == {"ScrapeDeadline"}


async def test_pods_that_hung_when_last_asked_come_last(source_of, pods):
    source = source_of(concurrency=1, timeout_seconds=0.2, deadline_seconds=0.3)
    targets = [target("hang-0"), target("hang-1"), target("llama-0")]
    firsts = []
    for _ in range(3):
        before = len(pods.seen)
        await source.collect(targets)
        firsts.append(pods.seen[before].match_info["pod"])
    assert firsts == ["hang-0", "hang-1", "llama-0"]


async def test_no_more_requests_run_together_than_allowed(source_of, pods):
    found = await source_of(concurrency=3).collect([target(f"llama-{n}") for n in range(20)])
    assert all(isinstance(pod, Known) for pod in found.values())
    assert 1 <= pods.most_together <= 3


async def test_only_plain_text_is_asked_for_and_nothing_is_given_away(source_of, pods):
    await one(source_of(), "llama-0")
    headers = pods.seen[0].headers
    assert headers["Accept-Encoding"] == "identity"
    assert not {"Authorization", "Cookie"} & set(headers)


async def test_a_refused_connection_is_unknown(source_of, server):
    source = source_of()
    await server.close()
    result = await one(source, "llama-0")
    assert result.reason == "ScrapeFailed"


async def test_no_pods_cost_no_request(source_of, pods):
    assert await source_of().collect([]) == {}
    assert pods.seen == []


async def test_a_mistake_of_ours_is_not_passed_off_as_a_late_pod(source_of, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError

    monkeypatch.setattr("kvscale.adapters.scrape.read_pod", broken)
    with pytest.raises(ZeroDivisionError):
        await one(source_of(), "llama-0")


DEFAULT = ScrapeSettings().url_template


@pytest.mark.parametrize(
    ("ip", "url"),
    [
        ("10.0.0.7", "http://10.0.0.7:8000/metrics"),
        ("fd00::7", "http://[fd00::7]:8000/metrics"),
        ("240.1.2.3", "http://240.1.2.3:8000/metrics"),
    ],
)
def test_a_pods_own_address_makes_the_url(ip, url):
    assert target_url(DEFAULT, target(ip=ip)) == url


@pytest.mark.parametrize(
    "ip",
    [
        "127.0.0.1", "127.8.8.8", "::1", "0.0.0.0", "::", "169.254.169.254", "fe80::1",
        "fe80::1%eth0", "224.0.0.1", "ff02::1", "fd00:ec2::254", "100.100.100.200",
        "168.63.129.16", "::ffff:127.0.0.1", "::ffff:169.254.169.254",
    ],
)  # fmt: skip
def test_an_address_that_is_no_pods_is_refused(ip):
    result = target_url(DEFAULT, target(ip=ip))
    assert isinstance(result, Unknown)
    assert result.reason == "RefusedPodIP"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ip": ""}, "NoPodIP"),
        ({"ip": "10.0.0.7:1@evil"}, "InvalidPodIP"),
        ({"ip": "0x7f.1"}, "InvalidPodIP"),
        ({"path": "metrics"}, "InvalidMetricsPath"),
        ({"path": "/../x"}, "InvalidMetricsPath"),
        ({"path": "/metrics?x=1"}, "InvalidMetricsPath"),
        ({"path": "/%2e%2e"}, "InvalidMetricsPath"),
        ({"path": "@evil/"}, "InvalidMetricsPath"),
        ({"port": 0}, "InvalidMetricsPort"),
        ({"port": 65536}, "InvalidMetricsPort"),
        ({"pod": "a/b"}, "InvalidPodName"),
        ({"namespace": ".."}, "InvalidPodName"),
    ],
)
def test_a_target_that_would_bend_the_url_is_refused(changes, reason):
    result = target_url(DEFAULT, target(**changes))
    assert isinstance(result, Unknown)
    assert result.reason == reason


def test_a_template_without_the_address_needs_none():
    template = "http://127.0.0.1:9000/{namespace}/{pod}{path}"
    assert target_url(template, target(ip="")) == "http://127.0.0.1:9000/team/llama-0/metrics"


@pytest.mark.parametrize(
    "template",
    [
        "", "{ip}", "ftp://{ip}/", "http://user:pw@{ip}/", "http://{ip}:{port}{path}#x",
        "http://{ip}/{uid}", "http://{}/", "http://{ip.__class__}/", "http://{ip", "http:///x",
        "file:///etc/passwd", "http://{ip}:notaport/",
    ],
)  # fmt: skip
def test_a_template_that_is_no_http_url_of_known_fields_is_refused_by_name(template):
    with pytest.raises(ValueError, match="scrape URL template"):
        ScrapeSettings(template)


@pytest.mark.parametrize(
    "name", ["concurrency", "timeout_seconds", "deadline_seconds", "max_body_bytes"]
)
def test_a_limit_of_nothing_is_refused_by_name(name):
    with pytest.raises(ValueError, match=name):
        ScrapeSettings(**{name: 0})
