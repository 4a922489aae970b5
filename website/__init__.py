"""The documentation as a site: the pages of docs/, README.md and others, put together for the generator. `nox -s site` builds it.

Rule: a page is written once, as it reads on its own; what the site needs beside it (links, API pages, navigation) is derived here.
"""
