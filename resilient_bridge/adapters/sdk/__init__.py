"""Client objects of provider SDKs, and any other: `wrap`."""
