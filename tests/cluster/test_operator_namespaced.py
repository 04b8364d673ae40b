"""The namespaced install: Roles in the watched namespace alone, and what is unknown without nodes."""

import pytest

from support.api_proxy import ApiProxy
from support.engine_pages import Load
from support.operator_rig import NODES, Account, Operator, Target, deployment

pytestmark = pytest.mark.usefixtures("shared_node")


@pytest.fixture
def proxy(control_plane):
    with ApiProxy(control_plane.url, control_plane.directory / "pki" / "ca.crt") as running:
        yield running


def test_it_runs_under_roles_alone(control_plane, engines, namespace, proxy, tmp_path):
    outside = control_plane.create_namespace(f"{namespace}-outside")
    with Account(control_plane, watched=[namespace]) as account:
        assert account.kinds == {"ServiceAccount", "Role", "RoleBinding"}
        arguments = (
            f"--namespaces={namespace}",
            f"--scrape-url-template={engines.template}",
            f"--kubeconfig={proxy.kubeconfig(account.kubeconfig)}",
        )
        with Operator(account, tmp_path, *arguments):
            engines.show(namespace, Load(used=1000, running=40, waiting=60))
            engines.show(outside, Load(used=1000, running=40, waiting=60))
            stranger = Target(control_plane, outside).deploy().declare()
            target = Target(control_plane, namespace).deploy().declare()
            # 1 on the node that exists, 2 that could wait: unknown nodes do not limit
            target.until_replicas(3)
            status = target.until(
                lambda it: (s := it.status()).get("scalings") and s, "the scaling in the status"
            )
            assert "placeable" not in status["replicas"]
            target.declare(devices_of="nothing") if False else None
            without = target.until_condition("CapacityKnown", "True", "Reported")
            assert without["message"].startswith("1,000 usable blocks")
            target.until_rounds(engines)
            assert stranger.status() == {}
            assert stranger.replicas() == 1
    control_plane.kubectl("delete", "namespace", outside, "--wait=false")
    assert [call for call in proxy.calls if call.status in {401, 403}] == []
    asked = {call.path for call in proxy.calls}
    assert not [path for path in asked if "nodes" in path or outside in path]
