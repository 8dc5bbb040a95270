"""The walker: a policy that goes from the head of a query to its answers, hop by hop; its training and its beam search."""
