"""The MCP sidecar: a relay to a server that may crash, restart or forget its sessions."""
