"""The API server: caches fed by list and watch, four small writes, and the lease.

configuration  where the server is and who we are
client         one connection: a call, a stream
errors         one kind of error, with the server's own status
project        raw object to record, pure
resources      which resources are watched, and how each is projected
cache          the records of one resource, and how old they are
reflector      list and watch, one thread for each resource: client-go's semantics
cluster        the `Cluster` port over all of it
writes         /scale and status
events         notes about pools
lease          the `Lease` port
"""
