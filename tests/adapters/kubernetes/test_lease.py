"""The lease: one holder, by one's own clock, and stepping down when unsure."""

from typing import Any

import pytest

from adapters.kubernetes.fake_api import Answer, FakeApi, Fault, Request
from kvscale.adapters.kubernetes.client import Client
from kvscale.adapters.kubernetes.lease import KubernetesLease, LeaseTimes
from kvscale.core.values import Known, Unknown

COLLECTION = "/apis/coordination.k8s.io/v1/namespaces/kvscale/leases"
PATH = f"{COLLECTION}/kvscale"
LONG_AGO = "2001-01-01T00:00:00.000000Z"


class LeaseServer:
    """Stores one Lease, with optimistic concurrency."""

    def __init__(self, api: FakeApi) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        api.writes["GET", PATH] = self.read
        api.writes["POST", COLLECTION] = self.create
        api.writes["PUT", PATH] = self.update

    def read(self, _: Request) -> Answer:
        return (200, self.lease) if self.lease else (404, {"reason": "NotFound"})

    def create(self, request: Request) -> Answer:
        return (409, {"reason": "AlreadyExists"}) if self.lease else (201, self.store(request.body))

    def update(self, request: Request) -> Answer:
        assert self.lease is not None
        if request.body["metadata"]["resourceVersion"] != str(self.version):
            return 409, {"reason": "Conflict"}
        return 200, self.store(request.body)

    def store(self, body: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        metadata = body["metadata"] | {"resourceVersion": str(self.version)}
        self.lease = body | {"metadata": metadata}
        return self.lease

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        spec: dict[str, Any] = self.lease["spec"]
        return spec


@pytest.fixture
def server(api: FakeApi) -> LeaseServer:
    return LeaseServer(api)


@pytest.fixture
def contender(client: Client, now: Any) -> Any:
    def create(identity: str, clock: Any = now, renew_every: float = 0.0) -> KubernetesLease:
        return KubernetesLease(
            client,
            namespace="kvscale",
            name="kvscale",
            identity=identity,
            now=clock,
            times=LeaseTimes(duration=30, renew_deadline=20.0, renew_every=renew_every),
        )

    return create


async def test_first_comer_creates_the_lease(server: LeaseServer, contender: Any, now: Any) -> None:
    assert await contender("one").acquire() == Known("one", now.at)
    assert server.spec["holderIdentity"] == "one"
    assert server.spec["leaseDurationSeconds"] == 30
    assert server.spec["leaseTransitions"] == 0


async def test_live_holder_is_named_to_the_other(
    server: LeaseServer, contender: Any, now: Any
) -> None:
    one, two = contender("one"), contender("two")
    await one.acquire()
    for _ in range(5):
        now.at += 15.0
        assert isinstance(await one.acquire(), Known)
        refused = await two.acquire()
        assert isinstance(refused, Unknown)
        assert (refused.reason, "held by one" in refused.message) == ("NotLeader", True)


async def test_renewal_keeps_the_time_of_acquisition_and_the_transitions(
    server: LeaseServer, contender: Any, now: Any
) -> None:
    one = contender("one")
    await one.acquire()
    acquired = server.spec["acquireTime"]
    now.at += 10.0
    await one.acquire()
    assert server.spec["acquireTime"] == acquired
    assert server.spec["renewTime"] != acquired
    assert server.spec["leaseTransitions"] == 0


async def test_silent_holder_is_replaced_after_the_duration_by_ones_own_clock(
    server: LeaseServer, contender: Any, now: Any
) -> None:
    await contender("one").acquire()
    two = contender("two")
    assert isinstance(await two.acquire(), Unknown)
    now.at += 29.0
    assert isinstance(await two.acquire(), Unknown)
    now.at += 1.0
    assert await two.acquire() == Known("two", now.at)
    assert server.spec["leaseTransitions"] == 1


@pytest.mark.parametrize("renewed", [LONG_AGO, "2999-01-01T00:00:00.000000Z"])
async def test_clock_of_the_holder_is_never_compared_with_ours(
    server: LeaseServer, contender: Any, now: Any, renewed: str
) -> None:
    spec = {"holderIdentity": "one", "leaseDurationSeconds": 30, "renewTime": renewed}
    server.store({"metadata": {}, "spec": spec})
    two = contender("two")
    assert isinstance(await two.acquire(), Unknown)
    now.at += 30.0
    assert isinstance(await two.acquire(), Known)


async def test_holders_own_duration_is_respected(
    server: LeaseServer, contender: Any, now: Any
) -> None:
    spec = {"holderIdentity": "one", "leaseDurationSeconds": 90, "renewTime": LONG_AGO}
    server.store({"metadata": {}, "spec": spec})
    two = contender("two")
    await two.acquire()
    now.at += 89.0
    assert isinstance(await two.acquire(), Unknown)


async def test_holder_that_lost_the_lease_steps_down_at_once(
    server: LeaseServer, contender: Any, now: Any
) -> None:
    one, two = contender("one"), contender("two")
    await one.acquire()
    await two.acquire()
    now.at += 30.0
    await two.acquire()
    refused = await one.acquire()
    assert isinstance(refused, Unknown)
    assert "held by two" in refused.message


async def test_race_for_a_free_lease_has_one_winner(
    api: FakeApi, server: LeaseServer, contender: Any
) -> None:
    server.store({"metadata": {}, "spec": {"holderIdentity": ""}})

    def overtaken(request: Request) -> Answer:
        server.store({"metadata": {}, "spec": {"holderIdentity": "two"}})
        return server.update(request)

    api.writes["PUT", PATH] = overtaken
    refused = await contender("one").acquire()
    assert isinstance(refused, Unknown)
    assert refused.reason == "NotLeader"


async def test_holder_that_cannot_renew_holds_on_until_the_deadline_and_no_longer(
    api: FakeApi, server: LeaseServer, contender: Any, now: Any
) -> None:
    one = contender("one")
    await one.acquire()
    since = now.at
    api.fail("list", *[Fault(status=503)] * 10)
    now.at += 19.0
    assert await one.acquire() == Known("one", since)
    now.at += 1.0
    refused = await one.acquire()
    assert isinstance(refused, Unknown)
    assert refused.reason == "LeaseUnavailable"


async def test_renewal_that_took_too_long_is_none(
    api: FakeApi, server: LeaseServer, contender: Any, now: Any
) -> None:
    def slow(request: Request) -> Answer:
        now.at += 25.0
        return server.update(request)

    one = contender("one")
    await one.acquire()
    api.writes["PUT", PATH] = slow
    refused = await one.acquire()
    assert isinstance(refused, Unknown)
    assert refused.reason == "LeaseUnavailable"


async def test_refused_permission_is_told_with_the_lease(
    api: FakeApi, server: LeaseServer, contender: Any
) -> None:
    api.fail("list", Fault(status=403, reason="Forbidden"))
    refused = await contender("one").acquire()
    assert isinstance(refused, Unknown)
    assert refused.reason == "LeaseUnavailable"
    assert "Lease kvscale/kvscale: Forbidden" in refused.message


async def test_fresh_renewal_is_not_repeated(
    api: FakeApi, server: LeaseServer, contender: Any, now: Any
) -> None:
    one = contender("one", renew_every=4.0)
    first = await one.acquire()
    now.at += 3.0
    before = len(api.requests)
    assert await one.acquire() == first
    assert len(api.requests) == before
    now.at += 1.0
    assert await one.acquire() == Known("one", now.at)


async def test_release_lets_the_next_in_at_once(server: LeaseServer, contender: Any) -> None:
    one, two = contender("one"), contender("two")
    await one.acquire()
    await two.acquire()
    await one.release()
    assert isinstance(await two.acquire(), Known)
    assert server.spec["leaseTransitions"] == 1


async def test_release_by_one_who_holds_nothing_changes_nothing(
    server: LeaseServer, contender: Any
) -> None:
    one, two = contender("one"), contender("two")
    await one.acquire()
    await two.acquire()
    await two.release()
    assert server.spec["holderIdentity"] == "one"


def test_times_that_would_allow_two_holders_are_refused() -> None:
    with pytest.raises(ValueError, match="renew_every < renew_deadline < duration"):
        LeaseTimes(duration=15, renew_deadline=15.0)
