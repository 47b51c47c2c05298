"""Proofs about loop machines: every reachable run is visited."""
