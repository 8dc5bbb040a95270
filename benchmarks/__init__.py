"""What hopwalk costs, measured beside the tools it stands on."""
