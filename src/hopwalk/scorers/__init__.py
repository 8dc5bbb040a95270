"""Scorers: f(head, relation, ·) for all tails at once. DistMult, ComplEx, ConvE, ensembles of them, and PyKEEN's models."""
