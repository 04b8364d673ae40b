"""What the chart renders, and the values that it refuses."""

import re
from pathlib import Path

import pytest
import yaml

from kvscale import __version__
from kvscale.adapters.sources import ScrapeSettings
from kvscale.api.crd import CRD_PATH

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "kvscale"
CI = sorted((CHART / "ci").glob("*-values.yaml"))
READ = ("get", "list", "watch")


def of_kind(documents, kind):
    return [document for document in documents if document["kind"] == kind]


def one(documents, kind):
    (found,) = of_kind(documents, kind)
    return found


def pod_of(documents):
    return one(documents, "Deployment")["spec"]["template"]["spec"]


def container_of(documents):
    (container,) = pod_of(documents)["containers"]
    return container


def options_of(documents):
    return dict(arg[2:].split("=", 1) for arg in container_of(documents)["args"][1:])


def test_the_chart_passes_its_own_linter(helm):
    for values in (None, *CI):
        more = () if values is None else ("--values", str(values))
        assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART), *more)


def test_the_charts_version_is_the_packages():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__


def test_the_scrape_template_defaults_to_the_operators_own():
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert values["metrics"]["scrape"]["urlTemplate"] == ScrapeSettings().url_template


def test_every_value_is_described_and_every_value_is_in_the_schema():
    text = (CHART / "values.yaml").read_text()
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())

    def undeclared(values, node, path=""):
        known = node.get("properties", {})
        for key, value in values.items():
            if key not in known:
                yield path + key
            elif isinstance(value, dict) and "properties" in known[key]:
                yield from undeclared(value, known[key], f"{path}{key}.")

    assert list(undeclared(yaml.safe_load(text), schema)) == []
    leaves = re.findall(r"^( *)(\w+): +\S.*$", text, re.MULTILINE)
    described = re.findall(r"# -- .*\n(?: *# .*\n)*( *)(\w+):", text)
    of_resources = {("  ", "requests"), ("  ", "limits")}  # described as one
    assert set(leaves) - set(described) == of_resources


def test_no_object_of_the_schema_takes_an_unknown_key():
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())

    def open_objects(node, path="$"):
        if isinstance(node, dict):
            if (
                "properties" in node
                and node.get("type") == "object"
                and "additionalProperties" not in node
            ):
                yield path
            for key, child in node.items():
                yield from open_objects(child, f"{path}.{key}")

    assert list(open_objects(schema)) == []


BAD_VALUES = {
    "an unknown value": {"replicas": 2},
    "an unknown value inside": {"operator": {"interval": 5}},
    "a mode that there is not": {"operator": {"mode": "Dry"}},
    "an interval of nothing": {"operator": {"intervalSeconds": 0}},
    "an interval as text": {"operator": {"intervalSeconds": "5"}},
    "a source that there is not": {"metrics": {"sources": ["datadog"]}},
    "no source": {"metrics": {"sources": []}},
    "prometheus without its URL": {"metrics": {"sources": ["prometheus"]}},
    "a URL with a password": {"metrics": {"prometheus": {"url": "http://a:b@prometheus"}}},
    "a template that is no URL": {"metrics": {"scrape": {"urlTemplate": "{ip}:{port}"}}},
    "a namespace that is no name": {"watchNamespaces": ["Team A"]},
    "a namespace pattern": {"watchNamespaces": ["team-*"]},
    "a namespace twice": {"watchNamespaces": ["a", "a"]},
    "a digest that is none": {"image": {"digest": "latest"}},
    "a user who is root": {"runAsUser": 0},
    "labels that are no strings": {"commonLabels": {"a": 1}},
}


@pytest.mark.parametrize("values", BAD_VALUES.values(), ids=BAD_VALUES)
def test_the_schema_refuses(render, values):
    with pytest.raises(Exception, match=r"values don't meet the specifications"):
        render(values)


@pytest.mark.parametrize("path", CI, ids=lambda path: path.name)
def test_values_that_people_use_are_accepted(render, path):
    assert of_kind(render(yaml.safe_load(path.read_text())), "Deployment")


def test_the_crd_is_the_generated_one_and_is_kept(render):
    crd = one(render(), "CustomResourceDefinition")
    annotations = crd["metadata"].pop("annotations")
    assert annotations == {"helm.sh/resource-policy": "keep"}
    assert crd == yaml.safe_load((ROOT / CRD_PATH).read_text())


@pytest.mark.parametrize(("crds", "there"), [({"install": False}, 0), ({"keep": False}, 1)])
def test_the_crd_can_be_left_out_or_left_to_go(render, crds, there):
    found = of_kind(render({"crds": crds}), "CustomResourceDefinition")
    assert len(found) == there
    assert all("annotations" not in crd["metadata"] for crd in found)


NAMESPACE_TABLE = {
    ("kvscale.io", "inferencepools"): READ,
    ("kvscale.io", "inferencepools/status"): ("patch",),
    ("", "pods"): READ,
    ("", "resourcequotas"): READ,
    ("apps", "deployments"): READ,
    ("apps", "statefulsets"): READ,
    ("leaderworkerset.x-k8s.io", "leaderworkersets"): READ,
    ("autoscaling", "horizontalpodautoscalers"): READ,
    ("keda.sh", "scaledobjects"): READ,
    ("apps", "deployments/scale"): ("get", "update", "patch"),
    ("apps", "statefulsets/scale"): ("get", "update", "patch"),
    ("leaderworkerset.x-k8s.io", "leaderworkersets/scale"): ("get", "update", "patch"),
    ("", "configmaps"): ("get",),
    ("events.k8s.io", "events"): ("create", "patch"),
}
CLUSTER_TABLE = NAMESPACE_TABLE | {
    ("", "nodes"): ("list", "watch"),
    ("resource.k8s.io", "resourceslices"): ("list", "watch"),
    ("apiextensions.k8s.io", "customresourcedefinitions"): READ,
}
LEASE_TABLE = {("coordination.k8s.io", "leases"): ("create", "get", "update")}


def granted(role):
    """Every (group, resource, verb) of a role."""
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def triples(table):
    return {(*where, verb) for where, verbs in table.items() for verb in verbs}


def by_name(documents, kind):
    return {
        (document["metadata"].get("namespace", ""), document["metadata"]["name"]): document
        for document in of_kind(documents, kind)
    }


def test_a_cluster_wide_install_grants_the_table_and_nothing_else(render):
    documents = render()
    roles = by_name(documents, "ClusterRole")
    assert set(roles) == {("", "kvscale"), ("", "kvscale-view"), ("", "kvscale-edit")}
    assert granted(roles["", "kvscale"]) == triples(CLUSTER_TABLE)
    lease = by_name(documents, "Role")
    assert set(lease) == {("kvscale-system", "kvscale-lease")}
    assert granted(lease["kvscale-system", "kvscale-lease"]) == triples(LEASE_TABLE)
    (binding,) = of_kind(documents, "ClusterRoleBinding")
    assert binding["roleRef"]["name"] == "kvscale"


def test_a_namespaced_install_grants_roles_in_these_namespaces_and_no_cluster_role(render):
    documents = render({"watchNamespaces": ["team-a", "team-b"]})
    assert of_kind(documents, "ClusterRole") == of_kind(documents, "ClusterRoleBinding") == []
    roles = by_name(documents, "Role")
    assert set(roles) == {
        ("team-a", "kvscale"), ("team-b", "kvscale"), ("kvscale-system", "kvscale-lease"),
    }  # fmt: skip
    assert granted(roles["team-a", "kvscale"]) == triples(NAMESPACE_TABLE)
    assert granted(roles["team-b", "kvscale"]) == triples(NAMESPACE_TABLE)
    assert options_of(documents)["namespaces"] == "team-a,team-b"


@pytest.mark.parametrize("watched", [[], ["team-a"]])
def test_every_binding_binds_its_own_role_to_the_operators_account_alone(render, watched):
    documents = render({"watchNamespaces": watched})
    account = one(documents, "ServiceAccount")["metadata"]["name"]
    bindings = by_name(documents, "RoleBinding") | by_name(documents, "ClusterRoleBinding")
    roles = by_name(documents, "Role") | by_name(documents, "ClusterRole")
    for (namespace, _), binding in bindings.items():
        assert (namespace, binding["roleRef"]["name"]) in roles
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": account, "namespace": "kvscale-system"}
        ]
    users = {("", "kvscale-view"), ("", "kvscale-edit")}
    assert len(bindings) == len(set(roles) - users)


@pytest.mark.parametrize("watched", [[], ["team-a"]])
def test_no_role_reads_secrets_has_a_wildcard_or_writes_a_workload(render, watched):
    documents = render({"watchNamespaces": watched})
    every = set().union(
        *map(granted, of_kind(documents, "Role") + of_kind(documents, "ClusterRole"))
    )
    writes = {"create", "update", "patch", "delete", "deletecollection", "*"}
    assert not [one for one in every if "*" in one or one[1] == "secrets"]
    assert not [one for one in every if one[0] == "apps" and "/" not in one[1] and one[2] in writes]


def test_the_lease_is_readable_and_writable_by_its_name_alone(render):
    role = one(render(), "Role")
    named = [rule for rule in role["rules"] if rule["verbs"] != ["create"]]
    assert [rule["resourceNames"] for rule in named] == [["kvscale"]]


def test_nothing_is_granted_where_roles_are_made_elsewhere(render):
    documents = render({"rbac": {"create": False}})
    kinds = {document["kind"] for document in documents}
    assert kinds == {"CustomResourceDefinition", "Deployment", "ServiceAccount"}


def violations(pod):
    """What Pod Security's `restricted` profile refuses (kubernetes v1.37 pod-security-admission)."""
    volumes = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral",
               "persistentVolumeClaim", "projected", "secret"}  # fmt: skip
    for volume in pod.get("volumes", ()):
        if not (set(volume) - {"name"}) <= volumes:
            yield f"volume {volume['name']}"
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(field):
            yield field
    for container in (*pod["containers"], *pod.get("initContainers", ())):
        security = pod.get("securityContext", {}) | container.get("securityContext", {})
        wanted = {
            "runAsNonRoot": security.get("runAsNonRoot") is True,
            "runAsUser": security.get("runAsUser") != 0,
            "seccompProfile": security.get("seccompProfile") == {"type": "RuntimeDefault"},
            "allowPrivilegeEscalation": security.get("allowPrivilegeEscalation") is False,
            "capabilities": security.get("capabilities") == {"drop": ["ALL"]},
            "privileged": not security.get("privileged"),
            "hostPort": not any("hostPort" in port for port in container.get("ports", ())),
        }
        yield from (name for name, met in wanted.items() if not met)


@pytest.mark.parametrize("path", [None, *CI], ids=lambda path: path.name if path else "default")
def test_the_pod_passes_pod_security_restricted_on_a_read_only_root(render, path):
    documents = render(yaml.safe_load(path.read_text()) if path else None)
    assert list(violations(pod_of(documents))) == []
    assert container_of(documents)["securityContext"]["readOnlyRootFilesystem"] is True


def test_there_is_never_a_second_operator(render):
    spec = one(render(), "Deployment")["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {"type": "Recreate"}
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] == 30


def test_the_probes_ask_where_the_operator_listens(render):
    container = container_of(render())
    (port,) = container["ports"]
    assert options_of(render())["liveness"] == f"http://0.0.0.0:{port['containerPort']}/healthz"
    for probe in ("livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"] == {"path": "/healthz", "port": port["name"]}


def test_only_the_operators_pod_mounts_the_token_of_its_account(render):
    documents = render()
    assert one(documents, "ServiceAccount")["automountServiceAccountToken"] is False
    assert pod_of(documents)["automountServiceAccountToken"] is True


def test_defaults_are_few_and_plain(render):
    assert options_of(render()) == {
        "interval": "5",
        "log-format": "json",
        "liveness": "http://0.0.0.0:8080/healthz",
        "lease-namespace": "kvscale-system",
        "metrics-source": "scrape",
        "scrape-url-template": "http://{ip}:{port}{path}",
    }


def test_values_become_options_and_mounted_files(render):
    documents = render(yaml.safe_load((CHART / "ci" / "prometheus-values.yaml").read_text()))
    options = options_of(documents)
    assert options["metrics-source"] == "prometheus,scrape"
    assert options["prometheus-url"] == "https://prometheus.monitoring:9090"
    mounts = {mount["mountPath"]: mount for mount in container_of(documents)["volumeMounts"]}
    files = ("prometheus-bearer-token-file", "prometheus-ca-file")
    for name in files:
        assert mounts[str(Path(options[name]).parent)]["readOnly"] is True
    assert options["record"] in mounts
    assert Path(options["prometheus-ca-file"]).name == "service-ca.crt"
    assert "runAsUser" not in pod_of(documents)["securityContext"]
    assert "@sha256:" in container_of(documents)["image"]


def test_every_option_exists_in_the_operators_command_line(render):
    import typer

    from kvscale.__main__ import app

    command = typer.main.get_command(app).get_command(None, "operator")
    known = {name for option in command.params for name in option.opts}
    values = yaml.safe_load((CHART / "ci" / "prometheus-values.yaml").read_text())
    values |= {"watchNamespaces": ["team-a"], "operator": {"mode": "Recommend"}}
    assert {f"--{name}" for name in options_of(render(values))} <= known


def test_the_mode_of_the_whole_operator_is_passed_on(render):
    assert options_of(render({"operator": {"mode": "Recommend"}}))["mode"] == "Recommend"


def test_selectors_never_change_with_the_version(render):
    deployment = one(render(), "Deployment")
    selector = deployment["spec"]["selector"]["matchLabels"]
    assert selector == {
        "app.kubernetes.io/name": "kvscale",
        "app.kubernetes.io/instance": "kvscale",
    }
    assert selector.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()


def test_every_object_carries_the_common_labels(render):
    documents = render({"commonLabels": {"team": "platform"}, "watchNamespaces": ["team-a"]})
    for document in documents:
        if document["kind"] != "CustomResourceDefinition":
            assert document["metadata"]["labels"]["team"] == "platform"


def test_two_releases_do_not_share_names(helm):
    text = helm("template", "blue", str(CHART), "--namespace", "a")
    names = {
        document["metadata"]["name"]
        for document in yaml.safe_load_all(text)
        if document and document["kind"] != "CustomResourceDefinition"
    }
    assert all(name.startswith("blue-kvscale") for name in names)
