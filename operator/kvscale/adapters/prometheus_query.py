"""The one query that is put to Prometheus, and its answer by pod."""

import ipaddress
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvscale.adapters.sources import PrometheusSettings
from kvscale.core.engines.metrics import ENGINE_LABELS, SERIES_NAMES, USAGE_NAMES, Series

TIME_LABEL = "kvscale_sampled"
"""Marks the elements of the answer that are times of samples, not values."""

PodName = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class ScrapedPod:
    """One scrape target's series of one pod.

    Attributes:
        address: the host of its instance label; None where that is no IP address or not asked for.
        sampled_at: epoch seconds on the server's clock.
        age_seconds: of the sample, by the server's clock.
    """

    address: str | None
    sampled_at: float
    age_seconds: float
    series: tuple[Series, ...]


def escape(value: str) -> str:
    """A string as the inside of a double-quoted PromQL literal."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def promql(matchers: Sequence[tuple[str, str]] = ()) -> str:
    """All series of all engines, and when each target was last sampled.

    `timestamp()` tells the sample's own time only of a bare selector (Prometheus
    promql/engine.go); the added label keeps `or` from dropping the times as duplicates of the
    usage series, whose labels they share.
    """
    more = "".join(f',{name}="{escape(value)}"' for name, value in matchers)
    names = "|".join(SERIES_NAMES)
    times = " or ".join(f'timestamp({{__name__="{n}"{more}}})' for n in USAGE_NAMES)
    return f'{{__name__=~"{names}"{more}}} or label_replace({times}, "{TIME_LABEL}", "1", "", "")'


def by_pod(
    elements: Sequence[Any], settings: PrometheusSettings
) -> Mapping[PodName, tuple[ScrapedPod, ...]]:
    """The answer's elements by pod; a pod that two jobs scrape has two entries.

    What the times carry beside the engine's own labels are the target's labels (job, instance,
    pod, ...): equal values there mean one scrape. Series of no timed scrape are left out.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: an element is none of an instant vector.
    """
    parsed = [_element(element) for element in elements]
    times = [one for one in parsed if TIME_LABEL in one[0]]
    target_labels = sorted(
        {name for labels, _, _ in times for name in labels} - ENGINE_LABELS - {TIME_LABEL}
    )

    def target(labels: Mapping[str, str]) -> tuple[str, ...]:
        return tuple(labels.get(name, "") for name in target_labels)

    series: dict[tuple[str, ...], list[Series]] = defaultdict(list)
    for labels, _, value in parsed:
        if TIME_LABEL not in labels:
            name = labels["__name__"]
            series[target(labels)].append(Series(name, labels, value))
    pods: dict[PodName, dict[tuple[str, ...], ScrapedPod]] = defaultdict(dict)
    for labels, evaluated_at, sampled_at in times:
        pod = (labels.get(settings.namespace_label, ""), labels.get(settings.pod_label, ""))
        key = target(labels)
        pods[pod][key] = ScrapedPod(
            address=_address(labels.get(settings.instance_label, "")),
            sampled_at=sampled_at,
            age_seconds=max(0.0, evaluated_at - sampled_at),
            series=tuple(series[key]),
        )
    return {pod: tuple(scrapes.values()) for pod, scrapes in pods.items()}


def _element(element: Any) -> tuple[Mapping[str, str], float, float]:
    """Labels, evaluation time and value of one element of an instant vector."""
    labels = element["metric"]
    evaluated_at, text = element["value"]
    if not isinstance(text, str) or not all(isinstance(one, str) for one in labels.values()):
        raise TypeError("labels are an object of strings and a value is a string")
    value = float(text)
    if not math.isfinite(evaluated_at) or (TIME_LABEL in labels and not math.isfinite(value)):
        raise ValueError("a time is not finite")
    return labels, float(evaluated_at), value


def _address(instance: str) -> str | None:
    """The IP address of "10.0.0.7:8000" or "[fd00::7]:8000", in its canonical form."""
    host = instance.rpartition(":")[0] if instance.count(":") == 1 or "]" in instance else instance
    try:
        return str(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return None
