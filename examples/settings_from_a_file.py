"""Policies in a file that operators edit: all its mistakes are reported at once.

$ python examples/settings_from_a_file.py
search makes at most 6 calls
2 mistakes in the next version:
policies.search.retry.atempts
policies.search.timeout
"""

import resilient_bridge as rb


GOOD = {
    "preset": "recursor",
    "policies": {
        "search": {
            "retry": {"attempts": 6, "backoff": "exponential(1, cap=30)"},
            "timeout": "10s",
        }
    },
}
BAD = {"policies": {"search": {"retry": {"atempts": 6}, "timeout": "ten seconds"}}}


def main() -> None:
    config = rb.load(GOOD)  # or rb.load("resilience.toml")
    search = config.policies["search"]
    print(f"search makes at most {search.explain().max_calls} calls")
    try:
        rb.load(BAD)
    except rb.ConfigError as error:
        print(f"{len(error.problems)} mistakes in the next version:")
        for problem in error.problems:
            print(problem.path)


if __name__ == "__main__":
    main()
