"""Settings: declared once, and how presets, recipes and the command line fill them."""
