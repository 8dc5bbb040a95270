"""Tools for developers: pages of the documentation that are made from results and code."""
