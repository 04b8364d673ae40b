"""The demo: a real control plane, simulated engines, recorded traffic, and the operator at work.

Everything but the GPUs is real: the API server with the chart's RBAC, the scheduler, the
controllers, the operator with the token of its own service account. kwok plays the kubelets, and
`kvscale.fleet` the engines.
"""
