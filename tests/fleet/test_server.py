"""The fleet over a real socket."""

import asyncio

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from kvscale.fleet.fleet import FleetPod
from kvscale.fleet.server import Fault, FleetServer

A = FleetPod("serving", "llama-a", "uid-a", "llama", ready=True)
B = FleetPod("serving", "llama-b", "uid-b", "llama", ready=False)


@pytest.fixture
async def server(fleet, clock):
    fleet.set_pods([A, B])
    serving = FleetServer(fleet, clock)
    await serving.start()
    yield serving
    await serving.stop()


@pytest.fixture
async def get(server):
    async with aiohttp.ClientSession() as session:

        async def fetch(path: str) -> tuple[int, str]:
            async with session.get(server.url + path) as response:
                return response.status, await response.text()

        yield fetch


def sample(text: str, name: str) -> float:
    families = text_string_to_metric_families(text)
    return next(s.value for family in families for s in family.samples if s.name == name)


async def test_a_pods_page_follows_the_clock(get, clock) -> None:
    clock.at += 5.5
    status, text = await get("/serving/llama-a/metrics")
    assert status == 200
    assert sample(text, "vllm:num_requests_running") == 6
    clock.at += 1000
    _, text = await get("/serving/llama-a/metrics")
    assert sample(text, "vllm:num_requests_running") == 0
    assert sample(text, "vllm:generation_tokens_total") == 2000


async def test_the_content_type_is_that_of_the_text_format(server) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.get(server.url + "/serving/llama-a/metrics") as response,
    ):
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"


async def test_a_starting_pod_answers_503_and_an_unknown_one_404(get, fleet) -> None:
    assert (await get("/serving/llama-b/metrics"))[0] == 503
    assert (await get("/serving/llama-c/metrics"))[0] == 404
    assert (await get("/elsewhere/llama-a/metrics"))[0] == 404
    fleet.set_pods([A])
    assert (await get("/serving/llama-b/metrics"))[0] == 404


async def test_targets_list_every_running_pod_for_prometheus(server) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.get(server.url + "/targets") as response,
    ):
        assert response.content_type == "application/json"
        targets = await response.json()
    assert targets == [
        {
            "targets": [f"127.0.0.1:{server.port}"],
            "labels": {
                "namespace": "serving",
                "pod": name,
                "__metrics_path__": f"/serving/{name}/metrics",
            },
        }
        for name in ("llama-a", "llama-b")
    ]


async def test_frozen_values_stand_still_and_thaw(get, server, clock) -> None:
    clock.at += 5.5
    server.set_fault("serving", "llama-a", Fault.FROZEN)
    clock.at += 5.0
    _, text = await get("/serving/llama-a/metrics")
    assert sample(text, "vllm:num_requests_running") == 6
    server.set_fault("serving", "llama-a", None)
    _, text = await get("/serving/llama-a/metrics")
    assert sample(text, "vllm:num_requests_running") > 6


async def test_a_malformed_page_cannot_be_parsed(get, server) -> None:
    server.set_fault("serving", "llama-a", Fault.MALFORMED)
    status, text = await get("/serving/llama-a/metrics")
    assert status == 200
    with pytest.raises(ValueError, match=r"\S"):
        list(text_string_to_metric_families(text))


@pytest.mark.parametrize(
    ("fault", "status", "body"),
    [
        (Fault.SERVER_ERROR, 500, "Internal Server Error\n"),
        (Fault.NOT_FOUND, 404, "no running pod serving/llama-a\n"),
        (Fault.EMPTY, 200, ""),
    ],
)
async def test_a_faulty_pod_answers_with_its_fault(get, server, fault, status, body) -> None:
    server.set_fault("serving", "llama-a", fault)
    assert await get("/serving/llama-a/metrics") == (status, body)


async def test_a_server_without_stats_answers_but_has_no_series_of_the_engine(get, server) -> None:
    server.set_fault("serving", "llama-a", Fault.NO_SERIES)
    status, text = await get("/serving/llama-a/metrics")
    assert status == 200
    assert [f.name for f in text_string_to_metric_families(text)] == [
        "process_resident_memory_bytes"
    ]


async def test_a_hanging_pod_does_not_answer_until_it_is_let_go(get, server) -> None:
    server.set_fault("serving", "llama-a", Fault.HANG)
    hanging = asyncio.create_task(get("/serving/llama-a/metrics"))
    # The other pod answers on the same loop, so the first request has been taken up by then.
    assert (await get("/serving/llama-b/metrics"))[0] == 503
    assert not hanging.done()
    server.set_fault("serving", "llama-a", None)
    assert (await hanging)[0] == 503
    assert (await get("/serving/llama-a/metrics"))[0] == 200


async def test_stopping_the_server_lets_hanging_requests_go(get, server) -> None:
    server.set_fault("serving", "llama-a", Fault.HANG)
    hanging = asyncio.create_task(get("/serving/llama-a/metrics"))
    await get("/targets")
    await server.stop()
    assert (await hanging)[0] == 503


async def test_faults_of_one_pod_leave_the_others_alone(get, server, fleet) -> None:
    fleet.set_pods([A, FleetPod("serving", "llama-b", "uid-b", "llama", ready=True)])
    server.set_fault("serving", "llama-b", Fault.SERVER_ERROR)
    assert (await get("/serving/llama-a/metrics"))[0] == 200
    assert (await get("/serving/llama-b/metrics"))[0] == 500


async def test_values_of_an_unknown_pod_cannot_freeze(server) -> None:
    with pytest.raises(ValueError, match="no pod serving/llama-x"):
        server.set_fault("serving", "llama-x", Fault.FROZEN)
