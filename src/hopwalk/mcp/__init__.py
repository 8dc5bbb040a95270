"""Tools for agents: a trained run as an MCP server, over stdio and streamable HTTP."""
