"""The paper's tables and figures, made again by one command."""
