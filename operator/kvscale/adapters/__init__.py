"""The outside behind ports: Kubernetes, Prometheus, scrape, clock. They take no decision."""
