"""NTP-λ: a differentiable prover with learnt rules, trained together with ComplEx on the same embeddings."""
