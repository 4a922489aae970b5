"""The process that a test started, in place of the one that was forked for it (zygote.py): it loads no library.

It hands over its streams, arguments, directory and environment, passes signals on, and ends as the program ended.
"""

import _signal
import _socket
import marshal
import os
import sys


def ask(path: str, arguments: list[str], streams: tuple[int, int, int]) -> _socket.socket:
    """Have the zygote at the path run the arguments, as `python` would, with these streams and our directory and environment.

    The link brings the id of the program and, once it is reaped, its status, four bytes each. The program is killed when it
    is closed.
    """
    link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    link.connect(path)
    request = marshal.dumps((arguments, os.getcwd(), dict(os.environb)))  # noqa: PTH109 -- pathlib is an import
    numbers = b"".join(number.to_bytes(4, sys.byteorder) for number in streams)
    link.sendmsg(
        [len(request).to_bytes(8, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, numbers)]
    )
    link.sendall(request)
    return link


def main(path: str, arguments: list[str]) -> None:
    """Stand in for the program from its start to its end."""
    link = ask(path, arguments, (0, 1, 2))
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)  # the streams are the program's alone: they end when it ends
    program = int.from_bytes(link.recv(4), "big")
    for number in (
        _signal.SIGTERM,
        _signal.SIGINT,
        _signal.SIGHUP,
        _signal.SIGUSR1,
        _signal.SIGUSR2,
    ):
        _signal.signal(number, lambda number, _: os.kill(program, number))
    status = int.from_bytes(link.recv(4), "big")
    if os.WIFSIGNALED(status):
        if (number := os.WTERMSIG(status)) != _signal.SIGKILL:
            _signal.signal(number, _signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
