"""`mcp --install CLIENT NAME` and `--undo`, on real files: nothing of them is lost, and what cannot be kept is refused."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from resilient_bridge import cli
from tests.internals.cli import mcp_install


#: as people have it: hand-made, with another server on one line
FILE = """{
    "mcpServers": {
        "other": {"command": "node", "args": ["x.js"], "env": {"API_KEY": "sk-ant-api03-%s"}}
    },
    "globalShortcut": "Ctrl+Space", "list": [1, 2, 3]
}
""" % ("k" * 40)


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """A home and a project with a program on the PATH."""
    program = tmp_path / "bin" / "some-server"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (tmp_path / "project").mkdir()
    monkeypatch.setenv("PATH", os.pathsep.join([str(program.parent), os.environ["PATH"]]))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path


def installed(client, name="memory", *words):
    return cli.main(["mcp", "--install", client, name, *words, "some-server", "-x"])


def undone(client, name="memory"):
    return cli.main(["mcp", "--install", client, name, "--undo"])


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("client", "member", "path"),
    [
        ("claude-code", "mcpServers", "project/.mcp.json"),
        ("claude-desktop", "mcpServers", ".config/Claude/claude_desktop_config.json"),
        ("cursor", "mcpServers", ".cursor/mcp.json"),
        ("vscode", "servers", "project/.vscode/mcp.json"),
        ("mcpservers=mine/servers.json", "mcpServers", "project/mine/servers.json"),
    ],
)
def test_a_new_file_has_the_entry_and_is_private(client, member, path, home, capsys):
    """The entry is that of --print-config; undone, the file is gone again."""
    (home / ".config/Claude").mkdir(parents=True)
    assert installed(client) == 0
    out, err = capsys.readouterr()
    file = home / path
    assert f"wrote {file}; it is new" in err
    assert '+    "memory": {' in out
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    printed = client.partition("=")[0]
    assert (
        cli.main(["mcp", "--print-config", printed, "--name", "memory", "some-server", "-x"]) == 0
    )
    assert json.loads(file.read_text()) == json.loads(capsys.readouterr().out)
    assert list(json.loads(file.read_text())) == [member]
    assert undone(client) == 0
    assert not file.exists()
    assert names(file.parent) == []


def test_all_else_stays_as_it_was_written(home, capsys):
    """To the byte, with its mode; the difference shows no secret; undone it is the old file."""
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    file.write_text(FILE)
    file.chmod(0o644)
    assert installed("cursor") == 0
    out, err = capsys.readouterr()
    text = file.read_text()
    before, after = FILE.split("}}\n    },")
    assert text.startswith(f'{before}}}}},\n        "memory": {{\n            "command": ')
    assert text.endswith(f"        }}\n    }},{after}")
    assert "kkkk" not in out
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    (backup,) = file.parent.glob("mcp.json.backup-*")
    assert backup.read_text() == FILE
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert str(backup) in err
    assert installed("cursor") == 0
    assert "already" in capsys.readouterr().err
    assert undone("cursor") == 0
    assert file.read_text() == FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert names(file.parent) == ["mcp.json"]


def test_the_entry_of_the_server_is_replaced_under_its_old_name(home):
    """And each step is taken back by itself, the last one first."""
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    file.write_text(FILE)
    assert installed("cursor", "other") == 0
    once = file.read_text()
    assert json.loads(once)["mcpServers"]["other"]["args"][-1] == "-x"
    assert installed("cursor", "other", "--idempotent", "search") == 0
    assert undone("cursor", "other") == 0
    assert file.read_text() == once
    assert undone("cursor", "other") == 0
    assert file.read_text() == FILE


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('// mine\n{"servers": {}}', "has comments"),
        ('{"servers": {"a": 1,}}', "is not JSON"),
        ('{"servers": []}', "holds no object"),
        ('{"servers": null}', "holds no object"),
        ("[]", "holds no object"),
        ('{"servers": {}, "servers": {}}', "twice"),
        ("[" * 100_000, "is not JSON"),
        (b'{"a": "\xff"}', "is not UTF-8"),
    ],
    ids=["comments", "no JSON", "a list of servers", "null", "a list", "twice", "deep", "no UTF-8"],
)
def test_what_an_edit_would_lose_is_refused(text, why, home, capsys):
    """Nothing is changed, and the error says how to go on by hand."""
    file = home / "project/.vscode/mcp.json"
    file.parent.mkdir()
    data = text if isinstance(text, bytes) else text.encode()
    file.write_bytes(data)
    assert installed("vscode") == 2
    assert undone("vscode") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert why in err
    assert "--print-config vscode prints what to put there" in err
    assert file.read_bytes() == data
    assert names(file.parent) == ["mcp.json"]


@pytest.mark.parametrize("kind", ["link", "second name", "read-only", "directory"])
def test_a_file_that_is_not_simply_ours_is_refused(kind, home, capsys):
    file, target = home / ".cursor/mcp.json", home / "dotfiles.json"
    file.parent.mkdir()
    target.write_text(FILE)
    if kind == "link":
        file.symlink_to(target)
    elif kind == "second name":
        file.hardlink_to(target)
    elif kind == "directory":
        file.mkdir()
    else:
        file.write_text(FILE)
        file.chmod(0o444)
    assert installed("cursor") == 2
    assert str(file) in capsys.readouterr().err
    assert target.read_text() == FILE
    assert names(file.parent) == ["mcp.json"]


@pytest.mark.parametrize("is_new", [False, True], ids=["changed", "appeared"])
def test_a_file_that_is_edited_meanwhile_is_refused(is_new, home, monkeypatch, capsys):
    """Another program writes between our reading and our writing: its words stay."""
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    if not is_new:
        file.write_text(FILE)
    show = mcp_install.show

    def meanwhile(*args, **options):
        file.write_text('{"theirs": 1}')
        return show(*args, **options)

    monkeypatch.setattr(mcp_install, "show", meanwhile)
    assert installed("cursor") == 2
    assert "changed the file meanwhile" in capsys.readouterr().err
    assert file.read_text() == '{"theirs": 1}'
    assert names(file.parent) == ["mcp.json"]


def test_undo_of_a_file_that_was_edited_since_is_refused(home, capsys):
    """It names the copy; what was edited stays."""
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    file.write_text(FILE)
    assert installed("cursor") == 0
    edited = file.read_text().replace("x.js", "y.js")
    file.write_text(edited)
    assert undone("cursor") == 2
    (backup,) = file.parent.glob("mcp.json.backup-*")
    assert f"was changed since, so nothing was undone; as it was before: {backup}" in (
        capsys.readouterr().err
    )
    assert file.read_text() == edited
    assert undone("cursor", "unknown") == 2
    assert "unknown is not in" in capsys.readouterr().err


def test_a_disk_that_is_full_loses_nothing(home, monkeypatch, capsys):
    """The new content is written beside it first; the old file is there until it is complete."""
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    file.write_text(FILE)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(mcp_install, "replace_atomically", full)
    with pytest.raises(OSError, match="No space"):
        installed("cursor")
    assert file.read_text() == FILE


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--install", "emacs", "x", "some-server"], "one of claude-code"),
        (["--install", "codex", "x", "some-server"], "codex has no JSON file"),
        (["--install", "json", "x", "some-server"], "json has no JSON file"),
        (["--install", "mcpservers", "x", "some-server"], "mcpservers=FILE expected"),
        (["--install", "claude-desktop", "x", "some-server"], "start the client once"),
        (["--install", "cursor", "x", "no-such-program"], "command not found"),
        (["--install", "cursor", "x"], "the server's URL, or the command"),
        (["--install", "cursor", "x", "--http", "127.0.0.1:0", "some-server"], "--http"),
        (["--install", "cursor", "x", "--name", "y", "some-server"], "got both"),
        (["--install", "cursor", "x", "--undo", "some-server"], "no command"),
        (["--undo"], "with --install CLIENT NAME"),
    ],
)
def test_wrong_usage_names_what_is_expected(words, text, home, capsys):
    assert cli.main(["mcp", *words]) == 2
    assert text in capsys.readouterr().err
    assert not (home / ".cursor").exists()


def test_line_ends_and_tabs_stay(home):
    """A separator of lines that is none of JSON's is a part of its string."""
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    text = '\ufeff{\r\n\t"mcpServers": {}\r\n}'
    file.write_bytes(text.encode())
    assert installed("cursor", "memory", "--env", "WORDS=a\u2028b") == 0
    after = file.read_bytes().decode()
    assert json.loads(after.removeprefix("\ufeff"))["mcpServers"]["memory"]["env"]["WORDS"] == (
        "a\u2028b"
    )
    assert after.startswith('\ufeff{\r\n\t"mcpServers": {\r\n\t\t"memory": {\r\n\t\t\t"command"')
    assert after.count("\n") == after.count("\r\n")
    assert undone("cursor") == 0
    assert file.read_bytes().decode() == text
