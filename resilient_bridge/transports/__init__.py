"""Links to the other side that carry frames: bytes, not meaning, and no decision about what a loss means.

What carries frames fulfils the contract `Transport`; `process` and `lines` carry the lines of a child instead. Nothing is imported here, so that asking for one
transport never loads the libraries of another.
"""
