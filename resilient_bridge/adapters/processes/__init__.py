"""Child processes that speak JSON-RPC over their standard streams: `stdio`."""
