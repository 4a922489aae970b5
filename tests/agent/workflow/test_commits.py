"""A commit as what a phase leaves behind, in a real repository: amended, rebased away, detached, without git."""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import UTC, datetime

import pytest

from resilient_bridge.failure import ConfigError
from tests.internals.agent import (
    ArtifactError,
    HiddenError,
    Measured,
    PhaseCheckpoint,
    commit_of,
    problems,
)


pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is missing")


@pytest.fixture
def git(tmp_path, monkeypatch):
    """A repository in tmp_path with one commit, and the function that calls git in it."""
    for name, value in {
        "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com",
        "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.com",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)

    def call(*words):
        done = subprocess.run(
            ["git", "-C", str(tmp_path), *words],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    call("init", "--quiet", "--initial-branch=main")
    _commit(call, tmp_path, "first")
    return call


def _commit(git, root, text):
    (root / "file").write_text(text)
    git("add", "file")
    git("commit", "--quiet", "-m", text)
    return git("rev-parse", "HEAD")


def _problems(root, *commits):
    return list(
        problems(
            Measured(root),
            root,
            PhaseCheckpoint(phase="p", completed_at=datetime.now(UTC), commits=commits),
            {},
        ).values()
    )


@pytest.mark.requirement("C6")
def test_a_commit_is_known_by_its_full_name(tmp_path, git):
    """HEAD, a short name and the full one are the same; it holds as long as HEAD has it in its history."""
    head = git("rev-parse", "HEAD")
    assert (
        commit_of(tmp_path, None)
        == commit_of(tmp_path, head[:7])
        == commit_of(tmp_path, head)
        == head
    )
    assert _problems(tmp_path, head) == []
    _commit(git, tmp_path, "second")
    assert _problems(tmp_path, head) == []
    assert commit_of(tmp_path, None) != head


@pytest.mark.requirement("C6")
@pytest.mark.parametrize("how", ["amend", "rebase", "reset", "other branch", "orphan"])
def test_a_commit_that_is_not_in_the_history_any_more(tmp_path, git, how):
    """Amended, rebased away, reset, on another branch: its object is still there, and it does not count."""
    first = git("rev-parse", "HEAD")
    second = _commit(git, tmp_path, "second")
    third = _commit(git, tmp_path, "third")
    if how == "amend":
        git("commit", "--amend", "--quiet", "-m", "another")
    elif how == "rebase":
        git("rebase", "--quiet", "-X", "theirs", "--onto", first, second)
    elif how == "reset":
        git("reset", "--quiet", "--hard", first)
    elif how == "other branch":
        git("checkout", "--quiet", "-b", "side", first)
    else:
        git("checkout", "--quiet", "--orphan", "new")
        git("commit", "--quiet", "-m", "new")
    assert _problems(tmp_path, third) == [
        f"commit {third[:12]} is not in the history: it is not there"
    ]
    assert commit_of(tmp_path, third) == third


def test_a_detached_head_is_a_head(tmp_path, git):
    """What counts is the history of HEAD, not of a branch."""
    head = git("rev-parse", "HEAD")
    git("checkout", "--quiet", "--detach")
    assert commit_of(tmp_path, None) == head
    assert _problems(tmp_path, head) == []


@pytest.mark.parametrize(
    "commit", ["HEAD", "main", "--all", "-x", "", "abc", "HEAD~1", "ABCDEF1", "a" * 65, "abcd\n"]
)
def test_only_names_of_commits_are_handed_to_git(tmp_path, git, commit):
    """Neither options nor anything that means something else tomorrow."""
    with pytest.raises(ConfigError, match=r"Phase\.committed"):
        commit_of(tmp_path, commit)


def test_what_is_no_commit_is_refused(tmp_path, git):
    """Unknown names, files and trees."""
    for name in ("0" * 40, "dead", git("rev-parse", "HEAD:file"), git("rev-parse", "HEAD^{tree}")):
        with pytest.raises(ArtifactError):
            commit_of(tmp_path, name)
    assert _problems(tmp_path, "0" * 40)[0].startswith(
        "commit 000000000000 is not in the history: "
    )


def test_a_tag_is_the_commit_that_it_is_of(tmp_path, git):
    """Of an annotated tag the object has a name of its own; what is kept is the commit."""
    git("tag", "-a", "-m", "one", "v1")
    assert commit_of(tmp_path, git("rev-parse", "v1")) == git("rev-parse", "HEAD")


def test_a_repository_without_commits(tmp_path, git):
    """HEAD is nothing yet."""
    (tmp_path / "empty").mkdir()
    git("init", "--quiet", "empty")
    with pytest.raises(ArtifactError):
        commit_of(tmp_path / "empty", None)


def test_no_repository(tmp_path, monkeypatch):
    """It says so, for the commit that is to be kept and for one that was."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(ArtifactError, match=r"there is no commit HEAD|not a git repository"):
        commit_of(tmp_path, None)
    assert "not a git repository" in _problems(tmp_path, "0" * 40)[0]


def test_no_git(tmp_path, git, monkeypatch):
    """What cannot be verified is not called gone."""
    head = git("rev-parse", "HEAD")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ArtifactError, match=r"^git is not installed$"):
        commit_of(tmp_path, None)
    with pytest.raises(HiddenError, match=r"^git is not installed$"):
        _problems(tmp_path, head)


@pytest.mark.skipif(os.name == "nt", reason="needs a program that is a script")
def test_a_git_that_does_not_answer(tmp_path, monkeypatch):
    """It is ended after its time, and what it says on stderr is shown without secrets."""
    tool = tmp_path / "git"
    tool.write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    tool.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("resilient_bridge.agent.workflow.artifacts._GIT_SECONDS", 0.1)
    with pytest.raises(ArtifactError, match=r"^git did not answer: TimeoutExpired$"):
        commit_of(tmp_path, None)
    monkeypatch.undo()
    monkeypatch.setenv("PATH", str(tmp_path))
    tool.write_text("#!/bin/sh\necho 'fatal: https://me:s3cret-word@example.com/x' >&2\nexit 128\n")
    with pytest.raises(ArtifactError, match="example") as caught:
        commit_of(tmp_path, None)
    assert "s3cret" not in str(caught.value)


def test_it_is_the_repository_of_the_root_that_counts(tmp_path, git, monkeypatch):
    """A hook that runs us has set GIT_DIR for its own repository; we look into ours."""
    head = git("rev-parse", "HEAD")
    other = tmp_path.with_name(f"{tmp_path.name}-other")
    git("init", "--quiet", str(other))
    for name, value in {
        "GIT_DIR": other / ".git",
        "GIT_WORK_TREE": other,
        "GIT_INDEX_FILE": other / "index",
    }.items():
        monkeypatch.setenv(name, str(value))
    assert commit_of(tmp_path, None) == head
    assert _problems(tmp_path, head) == []
