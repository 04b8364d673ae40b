"""Inference engines: a package per engine, with its defaults, memory rule, arguments and metrics.

Beside them stands what all share: what an engine is started with (`config`, `launch`, `arguments`),
what a layer caches (`layer_rules`), what a boot log says (`boot_log`).
"""
