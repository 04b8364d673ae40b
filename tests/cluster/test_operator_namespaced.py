"""The namespaced install: Roles in the watched namespace alone, and what is unknown without nodes."""

from support.api_proxy import ApiProxy
from support.engine_pages import Load
from support.operator_rig import Account, Operator
from support.scaled_target import Target

H100 = {"product": "NVIDIA-H100-80GB-HBM3"}
SCALING = {"maxReplicas": 5}
BUSY = Load(used=1000, running=40, waiting=200)
"""7 replicas are wanted of it."""


def test_it_runs_under_roles_alone(control_plane, engines, target, node_pool, tmp_path):
    node_pool.add(gpus=1)
    outside = control_plane.create_namespace(f"{target.namespace}-outside")
    stranger = Target(control_plane, outside).deploy().declare()
    with (
        Account(control_plane, watched=[target.namespace]) as account,
        ApiProxy(control_plane.url, control_plane.directory / "pki" / "ca.crt") as proxy,
    ):
        assert account.kinds == {"ServiceAccount", "Role", "RoleBinding"}
        arguments = (
            f"--namespaces={target.namespace}",
            f"--scrape-url-template={engines.template}",
            f"--kubeconfig={proxy.kubeconfig(account.kubeconfig)}",
        )
        with Operator(account, tmp_path, *arguments):
            target.deploy(nodeSelector=node_pool.selector).declare(scaling=SCALING)
            unknown = target.until_condition("CapacityKnown", "False", "NoNodeAccess")
            assert "targets[0].devices.product" in unknown["message"]  # the mend
            target.declare(targets=[{"ref": {"name": "llama"}, "devices": H100}], scaling=SCALING)
            target.until_condition("CapacityKnown", "True", "Computed")
            for namespace in (target.namespace, outside):
                engines.show(namespace, BUSY)
            # one device exists, and 2 replicas might wait for more: unknown nodes do not limit
            target.until_replicas(5)
            status = target.until(
                lambda it: (s := it.status())["scalings"] and s, "the scaling in the status"
            )
            assert "placeable" not in status["replicas"]
            target.until_rounds(engines)
            assert stranger.status() == {}
            assert stranger.replicas() == 1
        calls = proxy.calls
    control_plane.kubectl("delete", "namespace", outside, "--wait=false")
    assert len(calls) > 20
    assert [call for call in calls if call.status in {401, 403}] == []
    asked = {call.path for call in calls}
    assert not [path for path in asked if "/nodes" in path or outside in path]
