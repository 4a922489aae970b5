"""The remembered lists of a server: pages to answer from, and the descriptions of its tools.

Rule: hints belong to the session that gave them. A new session starts without any, and a cursor of
an earlier session is not sent to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from .message import list_of, object_of


if TYPE_CHECKING:
    from collections.abc import Mapping

    from .message import Message


LISTS: Final[Mapping[str, tuple[str, str, str]]] = {
    "tools/list": ("tools", "tools", "notifications/tools/list_changed"),
    "prompts/list": ("prompts", "prompts", "notifications/prompts/list_changed"),
    "resources/list": ("resources", "resources", "notifications/resources/list_changed"),
    "resources/templates/list": (
        "resourceTemplates",
        "resources",
        "notifications/resources/list_changed",
    ),
}
"""For each list: the member of its result, its capability, and the notification of its change."""

MOST_PAGES: Final = 100
_COMPARED: Final = {
    "tools/list": ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
}


class Seen(NamedTuple):
    """The known items of a list at one time, and whether they are the complete list."""

    items: list[Any]
    is_complete: bool


class Lists:
    """The lists of one server session, page by page; `cursor` "" is the first page."""

    def __init__(self) -> None:
        self._pages: dict[str, dict[str, Mapping[str, Any]]] = {}
        self.complete: set[str] = set()  # lists of which every page is known
        # the tools by name, built on first use
        self._tools: dict[str, Mapping[str, Any]] | None = None

    def learn(self, method: str, cursor: str, result: Mapping[str, Any]) -> str:
        """Store a page as the server sent it; return the cursor of the next, "" after the last.

        A first page that differs from the stored one removes all stored pages of the list.
        """
        pages = self._pages.setdefault(method, {})
        if not cursor and pages.get("") != result:
            pages.clear()
            self.complete.discard(method)
        if method == "tools/list":
            self._tools = None
        pages[cursor] = result
        following = result.get("nextCursor")
        if isinstance(following, str) and following:
            return following
        if cursor in self._chain(method):
            self.complete.add(method)
        return ""

    def page(self, method: str, cursor: str) -> Mapping[str, Any] | None:
        """Return a page as the server sent it; None if it is not known."""
        return self._pages.get(method, {}).get(cursor)

    def knows_cursor(self, method: str, cursor: str) -> bool:
        """Return whether a known page names this cursor as the next one."""
        return any(
            page.get("nextCursor") == cursor for page in self._pages.get(method, {}).values()
        )

    def forget(self, method: str) -> None:
        """Mark a list that the server says has changed as incomplete; its pages are kept."""
        self.complete.discard(method)

    def items(self, method: str) -> list[Mapping[str, Any]]:
        """Return the items of the known pages of a list, in the server's order."""
        member = LISTS[method][0]
        found: list[Mapping[str, Any]] = []
        for cursor in self._chain(method):
            found += [object_of(item) for item in list_of(self._pages[method][cursor].get(member))]
        return found

    def seen(self, method: str) -> Seen | None:
        """Return the known items of a list, for `differs`; None if its first page is not known."""
        if "" not in self._pages.get(method, {}):
            return None
        return Seen(
            [_compared(method, item) for item in self.items(method)], method in self.complete
        )

    def differs(self, method: str, before: Seen) -> bool:
        """Return whether this list differs from an earlier one, as far as that one was known."""
        items = [_compared(method, item) for item in self.items(method)]
        return items[: len(before.items)] != before.items or (
            before.is_complete and len(items) != len(before.items)
        )

    def tool(self, name: str) -> Mapping[str, Any] | None:
        if self._tools is None:
            self._tools = {str(item.get("name")): item for item in self.items("tools/list")}
        return self._tools.get(name)

    def names(self) -> list[str]:
        return [str(item.get("name")) for item in self.items("tools/list")]

    def _chain(self, method: str) -> list[str]:
        """Return the cursors of the known pages, from the first page to the first gap."""
        pages, found, cursor = self._pages.get(method, {}), list[str](), ""
        while cursor in pages and cursor not in found:
            found.append(cursor)
            following = pages[cursor].get("nextCursor")
            cursor = following if isinstance(following, str) and following else "\0"
        return found


def _compared(method: str, item: Mapping[str, Any]) -> Any:
    names = _COMPARED.get(method)
    return item if names is None else {name: item.get(name) for name in names}


def cursor_of(request: Message) -> str:
    cursor = request.params.get("cursor")
    return cursor if isinstance(cursor, str) else ""


def hint_of(tool: Mapping[str, Any] | None) -> str:
    """Return "read" or "idempotent" if the annotations of a tool say so, else ""."""
    annotations = object_of(tool.get("annotations") if tool is not None else None)
    if annotations.get("readOnlyHint") is True:
        return "read"
    return "idempotent" if annotations.get("idempotentHint") is True else ""
