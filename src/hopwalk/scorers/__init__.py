"""Scorers f(head, relation, ·) of all tails at once: DistMult, ComplEx, ConvE, ensembles, and the models of PyKEEN."""
