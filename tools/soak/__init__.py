"""Hours of bad luck in a row: kills, damaged run folders, malformed inputs and load, from a seed, counted (`make soak`)."""
