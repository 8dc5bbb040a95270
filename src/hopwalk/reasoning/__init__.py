"""Asking a trained run: answers, explanations, rules, completion, comparison, and how they are shown."""
