"""An HTTP client that repeats what is safe, obeys Retry-After, avoids a dead host.

One transport under the client is all that it takes. A GET is repeated after any failure
that may pass; here a POST is repeated only with your own idempotency key.
`MockTransport` plays the server: leave `inner=` out for a real one.

    $ python examples/http_client.py
    GET /stock: 200 after 3 requests
    POST /orders: 503 after 1 request
    POST /orders with a key: 201 after 2 requests
"""

import httpx

import resilient_bridge as rb


def server(script: list[int]) -> httpx.MockTransport:
    """Answer with one status after the other."""
    return httpx.MockTransport(
        lambda _request: httpx.Response(script.pop(0), headers={"Retry-After": "1"})
    )


def ask(
    method: str, path: str, script: list[int], headers: dict[str, str] | None = None
) -> tuple[int, int]:
    planned = len(script)
    policy = rb.Policy(rb.Deadline(60), rb.Retry(attempts=4), rb.Breaker(key="stock"))
    with httpx.Client(
        transport=rb.HTTPTransport(policy, inner=server(script))
    ) as client:
        response = client.request(
            method, f"https://shop.example{path}", headers=headers
        )
    return response.status_code, planned - len(script)


def main() -> None:
    with rb.testing.virtual_time():  # only here: do not wait
        status, requests = ask("GET", "/stock", [503, 503, 200])
        print(f"GET /stock: {status} after {requests} requests")
        status, requests = ask("POST", "/orders", [503, 201])
        print(f"POST /orders: {status} after {requests} request")
        status, requests = ask(
            "POST", "/orders", [503, 201], {"Idempotency-Key": "order-42"}
        )
        print(f"POST /orders with a key: {status} after {requests} requests")


if __name__ == "__main__":
    main()
