"""Quantities as the scheduler counts them: whole numbers of the smallest unit, rounded up.

Source: kubernetes v1.37 `component-helpers/resource/helpers.go`, PodRequests (without its
treatment of in-place resizing, which knows CPU and memory only).
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from kvscale.adapters.kubernetes.project.fields import Malformed, Raw, mapping, objects, shared
from kvscale.api.quantity import quantity_to_int

_CPU = frozenset({"cpu", "requests.cpu", "limits.cpu"})
_POD_LEVEL = ("cpu", "memory", "hugepages-")


def amounts(raw: Raw, key: str) -> dict[str, int]:
    """A resource list: CPU in millicores, memory and storage in bytes, everything else in units.

    Raises:
        Malformed: a quantity cannot be read; the message names the resource.
    """
    return {shared(name): _amount(name, str(value)) for name, value in mapping(raw, key).items()}


@lru_cache(maxsize=4096)
def _amount(name: str, value: str) -> int:
    try:
        return quantity_to_int(value, per_unit=1000 if name in _CPU else 1)
    except ValueError as error:
        raise Malformed(f"{name}: {error}") from error


def container_requests(container: Raw) -> dict[str, int]:
    """What one container requests; a limit without a request is the request.

    The API server fills that in for pods but not for pod templates
    (kubernetes v1.37 pkg/apis/core/v1/defaults.go, SetDefaults_Pod).
    """
    resources = mapping(container, "resources")
    return amounts(resources, "limits") | amounts(resources, "requests")


def pod_requests(spec: Raw) -> Mapping[str, int]:
    """What a pod of that spec occupies on a node, `pods: 1` included.

    The larger of all containers together and of any moment of initialisation; restartable init
    containers (sidecars) stay, so they count in both. Pod-level requests replace the sum;
    overhead comes on top.

    Raises:
        Malformed: a quantity cannot be read.
    """
    running: dict[str, int] = {}
    for container in objects(spec, "containers"):
        _add(running, container_requests(container))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in objects(spec, "initContainers"):
        wanted = container_requests(container)
        if container.get("restartPolicy") == "Always":
            _add(running, wanted)
            _add(sidecars, wanted)
            _raise_to(peak, sidecars)
        else:
            _add(wanted, sidecars)
            _raise_to(peak, wanted)
    _raise_to(running, peak)
    pod_level = amounts(mapping(spec, "resources"), "requests")
    running |= {name: n for name, n in pod_level.items() if name.startswith(_POD_LEVEL)}
    _add(running, amounts(spec, "overhead"))
    running["pods"] = 1
    return _one_copy(running.items())


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: dict[str, int], least: Mapping[str, int]) -> None:
    for name, amount in least.items():
        total[name] = max(total.get(name, 0), amount)


def _one_copy(pairs: Iterable[tuple[str, int]]) -> Mapping[str, int]:
    return _shared_amounts(tuple(sorted(pairs)))


@lru_cache(maxsize=4096)
def _shared_amounts(pairs: tuple[tuple[str, int], ...]) -> Mapping[str, int]:
    return dict(pairs)
