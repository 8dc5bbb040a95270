"""A small search space, for tests of tuning."""

SPACE = """
[scorer]
"scorer.learning_rate" = { low = 0.001, high = 0.5, log = true }
"scorer.batch_size" = { low = 32, high = 128 }
[complex]
"scorer.n3" = [0.0, 0.01, 0.1]
[walker]
walker.action_dropout = { low = 0.0, high = 0.5 }
walk.hops = [1, 2]
"""
