"""HTTP clients: httpx and httpx2 by a transport, requests by an adapter, aiohttp by middleware."""
