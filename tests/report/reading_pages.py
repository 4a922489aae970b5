"""A page as a reader without a screen has it: its tags, tables, headings and texts, by the standard library's parser."""

from __future__ import annotations

from html.parser import HTMLParser


VOID = {"meta", "link", "br", "img", "input", "hr"}
CLOSED_BY_ITSELF = {"rect", "line", "circle"}


class Page(HTMLParser):
    """A document, parsed strictly: a tag that is closed by another one's end is an error."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []  # the tag it stands in, and the text
        self.rows: list[list[str]] = []
        self.errors: list[str] = []
        self.feed(text)
        self.close()
        self.errors += [f"<{tag}> is never closed" for tag in self.open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the tag."""
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A tag without a content."""
        self.tags.append((tag, dict(attrs)))
        if tag not in CLOSED_BY_ITSELF | VOID:
            self.errors.append(f"<{tag}/>")

    def handle_endtag(self, tag: str) -> None:
        """It has to be the one that is open."""
        if not self.open or self.open.pop() != tag:
            self.errors.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        """Keep the text."""
        if data.strip():
            self.texts.append((self.open[-1] if self.open else "", data))
        if self.open and self.open[-1] in {"td", "th"}:
            self.rows[-1][-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """The attributes of every tag of that name."""
        return [attrs for name, attrs in self.tags if name == tag]

    def texts_in(self, tag: str) -> list[str]:
        """The texts that stand directly in such a tag."""
        return [text for name, text in self.texts if name == tag]
