"""What a traffic needs of an engine: replicas, overflow, policies, cost."""
