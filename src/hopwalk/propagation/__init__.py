"""All walks at once: messages from the head along all edges, layer by layer; scores for every entity they reach."""
