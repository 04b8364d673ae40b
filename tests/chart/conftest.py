"""The chart through the real Helm: built once, before the first test, as a build takes minutes."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from localcluster import NoClusterError
from localcluster import helm as find_helm

CHART = Path(__file__).parents[2] / "charts" / "kvscale"


def _needs_helm(item):
    return "helm" in getattr(item, "fixturenames", ())


def pytest_collection_modifyitems(items):
    """What needs Helm is left out by `-m "not cluster"`, as is what needs the control plane."""
    for item in items:
        if _needs_helm(item) and Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.cluster)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    """Build what is missing before the first test: a build outlasts a test's timeout."""
    if session.config.option.collectonly or not any(map(_needs_helm, session.items)):
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        try:
            session.config.stash[_helm] = find_helm()
        except NoClusterError as error:
            session.config.stash[_no_helm] = str(error)


_helm = pytest.StashKey[Path]()
_no_helm = pytest.StashKey[str]()


class HelmError(Exception):
    """Helm refused; the message is what it wrote."""


@pytest.fixture(scope="session")
def helm(request):
    """A function that runs Helm and returns what it prints."""
    stash = request.config.stash
    if _helm not in stash:
        pytest.fail(stash.get(_no_helm, "Helm was not looked for"), pytrace=False)

    def run(*arguments, values=None):
        extra = () if values is None else ("--values", "-")
        done = subprocess.run(
            [stash[_helm], *arguments, *extra],
            input=json.dumps(values or {}),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise HelmError(done.stdout + done.stderr)
        return done.stdout

    return run


@pytest.fixture
def render(helm):
    """The documents of a release `kvscale` in namespace `kvscale-system`."""

    def documents(values=None, *arguments):
        text = helm(
            "template", "kvscale", str(CHART), "--namespace", "kvscale-system", *arguments,
            values=values or {},
        )  # fmt: skip
        return [document for document in yaml.safe_load_all(text) if document]

    return documents
