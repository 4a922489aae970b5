"""The MCP sidecar: a relay between an MCP client and a server that may crash, restart or forget its sessions."""
