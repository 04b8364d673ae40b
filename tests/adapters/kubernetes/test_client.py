"""The connection: who we say we are, what fails how, and where names may lead."""

from pathlib import Path
from typing import Any

import pytest

from adapters.kubernetes.fake_api import FakeApi, Fault, Request
from kvscale import __version__
from kvscale.adapters.kubernetes.client import APPLY, Client
from kvscale.adapters.kubernetes.configuration import load_configuration
from kvscale.adapters.kubernetes.errors import ApiError
from kvscale.adapters.kubernetes.resources import HPAS, PODS, collection_path, object_path


def test_requests_carry_our_name_and_ask_for_json(api: FakeApi, client: Client) -> None:
    client.get_page("/api/v1/pods", {"limit": "5"})
    headers = api.last("list").headers
    assert headers["User-Agent"] == f"kvscale/{__version__}"
    assert headers["Accept"] == "application/json"


def test_server_side_apply_is_sent_with_its_content_type(api: FakeApi, client: Client) -> None:
    def answer(request: Request) -> tuple[int, dict[str, Any]]:
        return 200, {"got": request.body, "type": request.headers["Content-Type"]}

    api.writes["PATCH", "/x"] = answer
    stored = client.send("PATCH", "/x", {"a": 1}, {"force": "true"}, APPLY)
    assert stored == {"got": {"a": 1}, "type": APPLY}
    assert api.last("write").query == {"force": "true"}


def test_refusal_carries_the_servers_words(api: FakeApi, client: Client) -> None:
    api.fail("list", Fault(status=409, reason="Conflict", headers={"Retry-After": "7"}))
    with pytest.raises(ApiError) as caught:
        client.get("/x")
    assert (caught.value.status, caught.value.reason) == (409, "Conflict")
    assert (caught.value.message, caught.value.retry_after) == ("as told", 7.0)


def test_refusal_without_a_status_body_is_named_by_its_code(api: FakeApi, client: Client) -> None:
    api.fail("list", Fault(status=502, body=b"<html>", headers={"Retry-After": "soon"}))
    with pytest.raises(ApiError) as caught:
        client.get("/x")
    assert (caught.value.status, caught.value.reason) == (502, "BadGateway")
    assert caught.value.retry_after is None


def test_write_whose_answer_is_lost_is_not_repeated(api: FakeApi, client: Client) -> None:
    api.fail("write", Fault(reset=True))
    with pytest.raises(ApiError) as caught:
        client.send("PUT", "/x", {"a": 1})
    assert caught.value.status == 0
    assert api.count("write") == 1


def test_redirect_is_not_followed(api: FakeApi, client: Client) -> None:
    api.fail("list", Fault(status=302, headers={"Location": "/api/v1/secrets"}))
    with pytest.raises(ApiError) as caught:
        client.get("/api/v1/pods")
    assert caught.value.status == 302
    assert len(api.requests) == 1


@pytest.mark.parametrize("name", ["", ".", "..", "../secrets/x", "a/b", "%2e%2e"])
def test_name_that_would_lead_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="no name of a Kubernetes object"):
        object_path("v1", "configmaps", "prod", name)


def test_namespace_that_would_lead_elsewhere_is_refused() -> None:
    with pytest.raises(ValueError, match="no name of a Kubernetes object"):
        collection_path("v1", "pods", "../..")


def test_paths_are_those_of_the_api() -> None:
    assert PODS.collection() == "/api/v1/pods"
    assert PODS.collection("prod") == "/api/v1/namespaces/prod/pods"
    assert HPAS.group_resource == "horizontalpodautoscalers.autoscaling"
    assert object_path("apps/v1", "deployments", "prod", "llama", "scale") == (
        "/apis/apps/v1/namespaces/prod/deployments/llama/scale"
    )


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: one
clusters:
- {name: a, cluster: {server: "https://one.example:6443"}}
- {name: b, cluster: {server: "https://two.example:6443"}}
users: [{name: me, user: {token: abc}}]
contexts:
- {name: one, context: {cluster: a, user: me}}
- {name: two, context: {cluster: b, user: me}}
"""


@pytest.fixture
def outside_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)


def test_named_kubeconfig_and_context_are_used(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(KUBECONFIG)
    assert load_configuration(str(path)).host == "https://one.example:6443"
    assert load_configuration(str(path), "two").host == "https://two.example:6443"


@pytest.mark.parametrize("content", [None, "contexts: [", "apiVersion: v1\nkind: Config\n"])
def test_kubeconfig_that_cannot_be_used_is_named_with_the_mend(
    tmp_path: Path, outside_a_pod: None, content: str | None
) -> None:
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    with pytest.raises(
        ValueError, match=r"kubeconfig .*config.* cannot be used (?s:.*)--kubeconfig"
    ):
        load_configuration(str(path))


def test_context_that_does_not_exist_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(KUBECONFIG)
    with pytest.raises(ValueError, match="context three cannot be used"):
        load_configuration(str(path), "three")
