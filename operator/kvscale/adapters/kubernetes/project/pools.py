"""InferencePools: identity and annotations; spec and status stay raw for the parser."""

from kvscale.adapters.kubernetes.project.fields import Raw, mapping, required, text, whole
from kvscale.core.spec import PoolKey
from kvscale.records import PoolObject


def project_pool(raw: Raw) -> PoolObject | None:
    """A pool's record; None for one that is being deleted, which is no longer ours to move.

    Raises:
        Malformed: it has no identity.
    """
    metadata = mapping(raw, "metadata")
    if "deletionTimestamp" in metadata:
        return None
    return PoolObject(
        key=PoolKey(required(metadata, "namespace"), required(metadata, "name")),
        uid=required(metadata, "uid"),
        generation=whole(metadata, "generation") or 0,
        resource_version=text(metadata, "resourceVersion"),
        annotations={
            key: value
            for key, value in mapping(metadata, "annotations").items()
            if isinstance(value, str)
        },
        spec=mapping(raw, "spec"),
        status=mapping(raw, "status"),
    )


def same_pool(before: PoolObject, after: PoolObject) -> bool:
    """Whether nothing changed that a decision reads: our own status writes must not wake us."""
    return (
        before.uid == after.uid
        and before.generation == after.generation
        and before.annotations == after.annotations
    )
