"""Search for better settings on dev."""
