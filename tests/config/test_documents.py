"""Documents as plain data: the same from three formats, with lines, within bounds, and never a traceback."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.internals.config import DocumentError, joined, read_document
from tests.rows import each_row


TOML = """\
preset = "recursor"  # a comment with [brackets] = x

[reconnect]
grace = "5m"
note = \"\"\"
grace = "inside"
[not.a.table]
\"\"\"
quoted = 'a # = "x"'

[policies."a.b".retry]
attempts = 4
on.message = "x"

[[ends]]
close = 4000
[[ends]]
close = 4001
"""


def test_toml_tells_the_line_of_each_key():
    """Tables, dotted and quoted keys, and arrays of tables; not what stands inside of a long text."""
    document = read_document(TOML.encode(), "toml")
    assert document.data["policies"]["a.b"]["retry"]["attempts"] == 4
    assert document.lines == {
        "preset": 1,
        "reconnect": 3,
        "reconnect.grace": 4,
        "reconnect.note": 5,
        "reconnect.quoted": 9,
        'policies."a.b".retry': 11,
        'policies."a.b".retry.attempts': 12,
        'policies."a.b".retry.on.message': 13,
        "ends[0]": 15,
        "ends[0].close": 16,
        "ends[1]": 17,
        "ends[1].close": 18,
    }


def test_yaml_reads_what_is_written():
    """`on` is a key, `no` a text and `1:30` too, as in YAML 1.2; numbers, true and null are what they are."""
    text = "retry:\n  on: [transient, no]\n  at: 1:30\n  n: 3\n  f: 1e3\n  t: true\n  z: null\n  s: '3'\n  x: 0x10\n"
    document = read_document(text.encode(), "yaml")
    assert document.data == {
        "retry": {
            "on": ["transient", "no"],
            "at": "1:30",
            "n": 3,
            "f": 1000.0,
            "t": True,
            "z": None,
            "s": "3",
            "x": 16,
        }
    }
    assert (document.lines["retry"], document.lines["retry.on"], document.lines["retry.s"]) == (
        1,
        2,
        8,
    )


BAD = [
    ("toml", b"a = 1\na = 2\n", "not TOML: cannot overwrite a value", 2),
    ("toml", b"a = \n", "not TOML: invalid value", 1),
    ("toml", b"a = '\xff'\n", "wanted UTF-8, got byte 0xff", 1),
    ("toml", b"x" * 300_000, "wanted at most 262144 bytes", None),
    ("toml", b"a = " + b"[" * 500 + b"]" * 500, "wanted at most 24 levels", None),
    ("toml", b".".join([b"a"] * 100_000) + b" = 1", "wanted at most 64 dots on a line", 1),
    ("toml", b"a = [" + b"1," * 6_000 + b"]", "wanted at most 5000 keys", None),
    ("json", b"[1]", "wanted a table of settings, got a list", None),
    ("json", b'{"a": 1, "a": 2}', "a: wanted once, got twice", None),
    ("json", b'{\n"a": }', "not JSON: expecting value", 2),
    ("json", b'{"a":' * 20_000, "wanted at most 24 levels", None),
    ("json", b'{"a": ' + b"9" * 5_000 + b"}", "not JSON", None),
    ("yaml", b"a: 1\nb: 2\na: 3\n", "a: wanted once, got twice", 3),
    ("yaml", b"a: !!python/object/apply:os.system [x]\n", "wanted plain data, got a tag", 1),
    ("yaml", b"a: 1\nb: !!map [x, y]\n", "b: wanted plain data, got a tag", 2),
    ("yaml", b"a: !!seq {x: y}\n", "a: wanted plain data, got a tag", 1),
    ("yaml", b"a: &x [*x]\n", "wanted at most 24 levels", 1),
    ("yaml", (b"a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
     b"d: [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"), "wanted at most", None),
    ("yaml", b"a: [1\n", "not YAML", 2),
    ("yaml", b"? [1]\n: 2\n", "wanted keys that are text", 1),
    ("yaml", b"a: 1\n---\nb: 2\n", "not YAML", 2),
    ("yaml", b"", "wanted a table of settings, got nothing", None),
]  # fmt: skip


@pytest.mark.requirement("X8")
@each_row(("form", "raw", "message", "line"), BAD)
def test_what_is_no_document_is_an_error_with_its_line(form, raw, message, line):
    """Bad syntax, bytes that are no text, keys that stand twice, tags, loops of aliases, and what is too large."""
    with pytest.raises(DocumentError) as caught:
        read_document(raw, form)
    assert message in str(caught.value)
    assert line is None or caught.value.line == line


@given(
    raw=st.binary(max_size=200)
    | st.text("{}[]:,=.\"'#&*!|>-?%@`\n\t a1~<", max_size=60).map(lambda text: text.encode())
    | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")),
    form=st.sampled_from(["toml", "json", "yaml"]),
)
@example(raw=b"a: !!int x", form="yaml")
@example(raw=b"a: \x85", form="yaml")
@example(raw=b"a = 2001-99-99", form="toml")
def test_arbitrary_bytes_are_a_document_or_an_error(raw, form):
    """Nothing else comes out of the reader."""
    try:
        document = read_document(raw, form)
    except DocumentError as error:
        assert str(error)
    else:
        assert isinstance(document.data, dict)


def test_a_path_is_spelled_as_in_toml():
    """Bare keys as they are, others in quotes, places of a list in brackets."""
    assert joined(joined(joined("", "tools"), "run it"), 2) == 'tools."run it"[2]'
