"""Whatever happens in whatever order: in the end the cache is what the server has."""

from threading import Event
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from kubernetes.client import Configuration

from adapters.kubernetes.fake_api import BLINK, FakeApi, Fault
from adapters.kubernetes.objects import PODS, pod
from kvscale.adapters.kubernetes.cache import Cache
from kvscale.adapters.kubernetes.client import Client, Timeouts
from kvscale.adapters.kubernetes.reflector import Pace, Reflector
from kvscale.adapters.kubernetes.resources import PODS as PODS_RESOURCE

names = st.sampled_from(["a", "b", "c", "d"])
steps = st.one_of(
    st.tuples(st.sampled_from(["put", "remove", "lose", "replay"]), names),
    st.tuples(
        st.sampled_from(["end", "reset", "compact", "error", "forbid", "busy", "torn"]), st.just("")
    ),
)


def play(api: FakeApi, step: tuple[str, str], generation: int) -> None:  # noqa: C901 - one case for each fault
    action, name = step
    known = api.objects.get(PODS, {})
    match action:
        case "put":
            old = known.get(f"prod/{name}")
            uid = old["metadata"]["uid"] if old else f"{name}-{generation}"
            api.put(PODS, pod(name, uid, nodeName=f"node-{generation}"))
        case "remove" if f"prod/{name}" in known:
            api.remove(PODS, f"prod/{name}")
        case "lose" if f"prod/{name}" in known:
            api.remove(PODS, f"prod/{name}", announce=False)
            api.compact()
            api.cut_watches()
        case "replay" if f"prod/{name}" in known:
            api.send(PODS, {"type": "MODIFIED", "object": known[f"prod/{name}"]})
        case "end":
            api.cut_watches()
        case "reset":
            api.cut_watches(reset=True)
        case "compact":
            api.compact()
        case "error":
            api.send(PODS, {"type": "ERROR", "object": {"code": 500}})
        case "forbid":
            api.fail("list", Fault(status=403))
        case "busy":
            api.fail("watch", Fault(status=429, headers={"Retry-After": "1"}))
        case "torn":
            api.fail("watch", Fault(torn={"type": "ADDED", "object": pod("ghost")}))


@settings(max_examples=25, deadline=None)
@given(script=st.lists(steps, max_size=25))
def test_cache_converges_to_the_server(script: list[tuple[str, str]]) -> None:
    api = FakeApi()
    cache: Cache[Any] = Cache(PODS_RESOURCE, "", lambda: 0.0, stale_after=1.0)
    stopped = Event()
    client = Client(Configuration(host=api.url), Timeouts(5.0, 5.0, 5.0, 5.0))
    reflector = Reflector(
        client,
        cache,
        PODS,
        on_change=api.poke,
        pace=Pace(page=2),
        wait=lambda seconds: stopped.wait(min(seconds, BLINK)),
    )
    reflector.start()
    try:
        for generation, step in enumerate(script):
            play(api, step, generation)
        api.put(PODS, pod("last"))

        def converged() -> bool:
            there = {
                (raw["metadata"]["uid"], raw["spec"].get("nodeName", ""))
                for raw in api.objects[PODS].values()
            }
            return {(record.uid, record.node) for record in cache.records()} == there

        api.eventually(converged)
        assert cache.problem() is None
    finally:
        stopped.set()
        reflector.stop()
        assert reflector.join(10.0)
        api.close()
