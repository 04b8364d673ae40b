"""`kvscale explain NAMESPACE/NAME`: why the number is what it is, from the live status."""

from typing import Annotated

import typer

from kvscale.adapters.kubernetes.errors import UNANSWERED, ApiError
from kvscale.adapters.kubernetes.pool_objects import config_map_of, workload_of
from kvscale.adapters.kubernetes.resources import POOLS, object_path
from kvscale.app.advice import advice_lines
from kvscale.app.explain import explain_status
from kvscale.cli.errors import fail
from kvscale.cli.output import Output, OutputOption, emit, one_line

NOT_FOUND = 404


def explain(
    pool: Annotated[str, typer.Argument(metavar="NAMESPACE/NAME", help="An InferencePool.")],
    *,
    output: OutputOption = Output.TABLE,
    kubeconfig: Annotated[str, typer.Option(envvar="KUBECONFIG", help="A kubeconfig file.")] = "",
    context: Annotated[str, typer.Option(help="A context of the kubeconfig.")] = "",
) -> None:
    """Explain the decision of a pool step by step, and what to change instead of scaling."""
    # The Kubernetes client takes half a second to load, and a wrong name needs none of it.
    from kvscale.adapters.kubernetes.client import Client  # noqa: PLC0415 - see above
    from kvscale.adapters.kubernetes.configuration import (  # noqa: PLC0415 - see above
        load_configuration,
    )

    namespace, _, name = pool.rpartition("/")
    if not name:
        fail(f"NAMESPACE/NAME is {pool!r}: give both, as in default/llama")
    try:
        client = Client(load_configuration(kubeconfig, context))
        found = client.get(object_path(POOLS.api, POOLS.name, namespace or "default", name))
    except ApiError as error:
        if error.status == NOT_FOUND:
            fail(f"inferencepools.kvscale.io {namespace or 'default'}/{name} does not exist")
        if error.status == UNANSWERED:
            fail(
                one_line(f"{error}: is the API server up? Name another by --kubeconfig, --context")
            )
        fail(one_line(str(error)))
    except ValueError as error:
        fail(str(error))
    status = found.get("status") or {}
    if not status:
        fail(f"{pool} has no status yet: is the operator running, and does it watch {namespace}?")
    page = explain_status(namespace or "default", name, status)
    if output is Output.TABLE:
        spec = found.get("spec") or {}
        page += advice_lines(
            name,
            found,
            workload_of(client.get, namespace or "default", spec),
            config_map_of(client.get, namespace or "default", spec),
        )
    emit(status, page, output)
