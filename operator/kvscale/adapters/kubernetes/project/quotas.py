"""ResourceQuotas."""

from kvscale.adapters.kubernetes.project.fields import Raw, mapping, required, texts
from kvscale.adapters.kubernetes.project.quantities import amounts
from kvscale.core.inventory import Quota

_SCOPES_OF_SERVERS = frozenset({"NotTerminating", "NotBestEffort"})
"""Scopes that a server's pods fall under: they run for ever and request resources."""


def project_quota(raw: Raw) -> Quota | None:
    """A quota's record, as its controller last published it.

    None for a quota whose scope does not cover every serving pod (by priority class, say): it
    would limit pools that it does not mean.

    Raises:
        Malformed: it has no identity, or a quantity cannot be read.
    """
    metadata, spec, status = mapping(raw, "metadata"), mapping(raw, "spec"), mapping(raw, "status")
    if "scopeSelector" in spec or not _SCOPES_OF_SERVERS.issuperset(texts(spec, "scopes")):
        return None
    return Quota(
        namespace=required(metadata, "namespace"),
        name=required(metadata, "name"),
        hard=amounts(status, "hard"),
        used=amounts(status, "used"),
    )
