"""Benchmarks: time and memory of hopwalk, measured beside the tools it is compared with."""
