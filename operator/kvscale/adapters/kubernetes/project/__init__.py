"""From raw objects to records: pure functions, tolerant of absent fields.

A record keeps what the loop reads and nothing else: 10,000 pods as decoded JSON are 260 MiB.
An object without identity, or with a value that cannot be read, raises `Malformed`; the caller
leaves that one object out and says so.
"""

from kvscale.adapters.kubernetes.project.fields import Malformed
from kvscale.adapters.kubernetes.project.nodes import project_node
from kvscale.adapters.kubernetes.project.pods import project_pod
from kvscale.adapters.kubernetes.project.pools import project_pool, same_pool
from kvscale.adapters.kubernetes.project.quotas import project_quota
from kvscale.adapters.kubernetes.project.scalers import project_hpa, project_scaled_object
from kvscale.adapters.kubernetes.project.workloads import project_workload

__all__ = [
    "Malformed",
    "project_hpa",
    "project_node",
    "project_pod",
    "project_pool",
    "project_quota",
    "project_scaled_object",
    "project_workload",
    "same_pool",
]
