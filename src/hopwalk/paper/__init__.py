"""The paper's tables and figures, reproduced by one command."""
