"""The shapes that secrets have: each is masked whole, what looks like one and is none stays, and the search is linear."""

from __future__ import annotations

import math
import time

import pytest

from resilient_bridge.failure import classify_error_payload, redact, redact_lines, redact_value
from tests.internals.failure import secret_shapes
from tests.rows import each_row


# fmt: off
SHAPES = r'''
Authorization: Digest username="Mufasa", realm="r", response="CANARY"
Cookie: a="1"; session="CANARY"
password: my CANARY pass
token=>'CANARY'
Ocp-Apim-Subscription-Key: CANARY
x-functions-key: CANARY
tool --api-key CANARY
curl -u user:CANARY http://x
<password>CANARY</password>
http://h/?jwt=CANARY
http://h/?session=CANARY
http://h/?ticket=CANARY&x=1
gsk_CANARYabc123456
xai-CANARYabc123456
hf_CANARYabc123456
sk_live_CANARYabc123
rk_live_CANARYabc123
whsec_CANARYabc123
glpat-CANARYabc123
ya29.CANARYabc123
SG.CANARYabc123.CANARY
pypi-CANARYabc123CANARY
npm_CANARYabc123CANARY
ASIACANARYCANARYAB12
https://hooks.slack.com/services/T0/B0/CANARY
https://discord.com/api/webhooks/123/CANARY
https://discordapp.com/api/v10/webhooks/123/CANARY
https://api.telegram.org/bot123456:CANARY/sendMessage
https://acme.webhook.office.com/webhookb2/CANARY@x/IncomingWebhook/CANARY/CANARY
tool --password=CANARY
tool --password "my CANARY x"
tool --password 'my CANARY x' --verbose
curl --user user:CANARY http://x
curl -uuser:CANARY http://x
mysql -u root -pCANARY db
mysql -u root -p CANARY db
sshpass -p CANARY ssh x
docker login -u bob -p CANARY reg.io
redis-cli -a CANARY ping
tool -u bob -p CANARY
<ns:ApiKey attr="1">CANARY</ns:ApiKey>
<password><![CDATA[CANARY]]></password>
&lt;password&gt;CANARY&lt;/password&gt;
<input type="password" name="password" value="CANARY">
<add key="ApiKey" value="CANARY"/>
<string name="api_key">CANARY</string>
<key>api_key</key><string>CANARY</string>
<password>\n  CANARY\n</password>
{"name": "X-Api-Key", "value": "CANARY"}
{"headers": {"x-api-key": ["CANARY"]}}
{"cookies": {"a": "CANARY"}}
headers["X-Api-Key"] = "CANARY"
user[password]=CANARY
"password" => "CANARY"
:password => "CANARY"
password := CANARY
password -> CANARY
password="it's CANARY"
password='say "CANARY" x'
password="a \"CANARY\" x"
password = """multi CANARY"""
secret: `CANARY`
export API_KEY=CANARY
ENV API_KEY CANARY
PGPASSWORD=CANARY psql
REDISCLI_AUTH=CANARY
MYSQL_PWD=CANARY
DB_PASS=CANARY
AccountKey=CANARY==;EndpointSuffix=core
SharedAccessKey=CANARY
Server=x;Uid=a;Pwd=CANARY;
machine h login bob password CANARY
IDENTIFIED BY 'CANARY'
ALTER ROLE x PASSWORD 'CANARY'
Authorization: AWS4-HMAC-SHA256 Credential=AKIA/2020, SignedHeaders=host, Signature=CANARY
Proxy-Authorization: Basic CANARY
Authorization=Negotiate CANARY more CANARY
Digest username="Mufasa", response="CANARY"
curl -H "Authorization: Bearer CANARY" http://x
curl -H 'Cookie: a="1"; b="CANARY"' http://x
Set-Cookie: sid=CANARY; Path=/
x-goog-api-key: CANARY
X-Auth-Key: CANARY
X-Session: CANARY
X-Vault-Token: CANARY
PRIVATE-TOKEN: CANARY
apikey CANARYabc123
api_key: CANARY
api-key=CANARY
apiKey: 'CANARY'
clientSecret: "CANARY"
--token CANARY
--access-token=CANARY
-password CANARY
-ApiKey CANARY
--secret-key CANARY
?sig=CANARY
&X-Amz-Signature=CANARY
?X-Amz-Security-Token=CANARY
?code=CANARY
?id_token=CANARY
#access_token=CANARY
?signature=CANARY
proxy bob:CANARY@proxy.example.com:8080
postgres://bob:CANARY@h/db
redis://:CANARY@h:6379
github_pat_CANARYCANARY
xoxb-CANARY-CANARY
AIzaCANARYCANARYCANARYCANARY
dop_v1_CANARY
shpat_CANARY
sq0atp-CANARY
lin_api_CANARY
nvapi-CANARY
r8_CANARYabc
pplx-CANARY
tgp_v1_CANARY
fw_CANARYabcd
key-CANARYabc1234
eyJhbGciOiJIUzI1NiJ9.CANARY.CANARY
Authorization: token CANARY
Authorization: ApiKey CANARY
auth_token=CANARY
session_token: CANARY
refresh_token="CANARY"
client_assertion=CANARY
//registry.npmjs.org/:_authToken=CANARY
_auth=CANARY
passphrase: correct CANARY battery
secret: two CANARY
mnemonic: a CANARY b
otp: CANARY
password:\tCANARY
PASSWORD : CANARY
{'password': 'a CANARY b', 'x': 1}
{\"password\": \"a CANARY b\"}
b'password=CANARY'
password%3DCANARY
openssl -passin pass:CANARY
curl --proxy-user a:CANARY x
https://bob:CANARY@h/x
https://CANARY@sentry.io/1
https://hooks.zapier.com/hooks/catch/1/CANARY
https://chat.googleapis.com/v1/spaces/X/messages?key=CANARY&token=CANARY
https://open.feishu.cn/open-apis/bot/v2/hook/CANARY
token is CANARY1234
wss://h/ws?api-key=CANARY
GET /ws?access_token=CANARY HTTP/1.1
JSESSIONID=CANARY
csrf_token=CANARY
X-CSRF-Token: CANARY
glsa_CANARYCANARY12
sntrys_CANARYCANARY
hvs.CANARYCANARY
dckr_pat_CANARY
tskey-auth-CANARY
Bearer CANARY
"Bearer CANARY"
Basic dXNlcjpDQU5BUlk=CANARY
'''.strip().split("\n")
INNOCENT = r"""
the session ended
code=404
token count: 512
key: value
max_tokens: 4096 of 200000 tokens used
the token expired
unexpected token '<' in JSON
Unexpected token } in JSON at position 3
[Errno 111] Connect call failed ('127.0.0.1', 7890)
server rejected WebSocket connection: HTTP 503
wss://host:8443/path?since=2026-03-01T00:00:00Z&session=s1
http://host:80/a@b
token: wanted text, got 7
received 1012 (service restart) sess-abc123
idempotency_key abc: already processed
Idempotency-Key: 5f1d-aa
primary-key: 7
mkdir -p build/dir
docker run -p 8080:80 nginx
docker run -u 1000:1000 nginx
ssh -p 22 host
cp -p a b
python -u script.py
sudo -u bob ls
the cookie jar is empty
passed: 5, failed: 3
bypass: x
author: Bob
authentication failed
the password must be changed
password must be at least 8 characters
session_id: abc-123
sessionId: abc-123
exit code=1
status code: 404
error code: E1234
https://example.com/docs/webhooks/quickstart
https://example.com/a?page=2&sort=key
https://example.com/?code=404
git@github.com:org/repo.git
mailto:bob@example.com
npm:react@18.2.0
image repo:tag@sha256:abcdef
hf_hub_download failed
npm_config_registry is not set
pypi-server is down
basic usage
the key was not found
key not found: 'abc'
KeyError: 'name'
ticket 4711 closed
sign in to continue
signed: yes
design: done
monkey: banana
turkey: food
keyboard: us
hotkey: ctrl
public key: abc
sort_key: name
cache-key: abc
the secret of success
secretary: Ann
tokenizer: bpe
tokenized=5
token_count=5
tokens: 5
time 10:30@home
user bob@example.com
digest of the message
a basic Authentication scheme
the -p flag of mkdir
tar -pxf a.tar
pytest -p no:cacheprovider
ASIAN countries
SGML parser
sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b
uuid 550e8400-e29b-41d4-a716-446655440000
trace_id=4bf92f3577b34da6a3ce929d0e0e4736
request_id: req_011CSHoEeqs5C35K2UUqR7Fy
model gpt-4o-mini-2024-07-18 overloaded
the option --token is required
error: the following arguments are required: --token
ENOENT: no such file or directory, open '/tmp/a.txt'
Traceback (most recent call last): File "/usr/lib/x.py", line 3
rate limit reached: 429 Too Many Requests
operation timed out after 30.0 s
certificate verify failed: self-signed certificate
passing: 12
compass: north
compare a->b
std::vector<int>::push_back
a => b
x-request-id: abc123
content-type: application/json
etag: "abc123"
user agent: python/3.11
hooks: pre-commit
webhook delivered
git hook failed with exit code 1
git commit -p
python -m http.server -p 80
login failed for user bob
set password first
""".strip().split("\n")
# fmt: on


@each_row("text", SHAPES)
def test_g01_every_shape_is_masked(text):
    """Headers of any scheme, quoted values whole, elements, options, queries, prefixes, hooks; twice changes nothing."""
    text = text.replace("\\n", "\n")
    for whole in (text, f"error: {text}", f"first line\n{text}\nlast line", f"é {text}"):
        shown = redact(whole, limit=100_000)
        assert "CANARY" not in shown
        assert redact(shown, limit=100_000) == shown
        assert "CANARY" not in redact_lines(whole, limit=1_000)


@each_row("text", INNOCENT)
def test_g01_what_is_no_secret_stays(text):
    """Prose, statuses, counts, ids, ports, hashes, paths: what a reader needs."""
    assert redact(text) == text


@pytest.mark.parametrize(
    "name",
    [
        "X-Functions-Key",
        "ocp-apim-subscription-key",
        "clientSecret",
        "db_pass",
        "REDISCLI_AUTH",
        "jwt",
        "auth",
    ],
)
def test_g01_fields_of_these_names_are_secrets(name):
    """Also as keys of a mapping, and as options of a command."""
    assert redact_value({name: "CANARY"}) == {name: "[redacted]"}
    assert "CANARY" not in str(redact_value(["tool", f"--{name}", "CANARY"]))


def test_g01_the_words_of_a_command():
    """`-u` and `user:password` as two words of a list."""
    assert "CANARY" not in str(redact_value({"args": ["curl", "-u", "bob:CANARY", "http://host"]}))
    assert redact_value(["docker", "-u", "root"]) == ("docker", "-u", "root")


PIECES = [
    "a://", "@a://", "a", "a-", "token", "token: ", "token=", "'", '"', ":// ", "key= ", ' "token", ', "eyJ-", "?token=", "u:p ", "-u ", "-u a",
    "mysql ", "mysql -u", "docker login", "=>", "{", "[", "password: a ", "password: [", 'password: {"', 'password="\\', "<token ", "<token a",
    "token</a>", 'name="token" ', "&lt;token&gt;", "-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "a:b@", "a.", "bearer ", "Digest a", 'cookie: ="',
    "a:b@c", "/hooks/", "https://hooks.", "x://a@", "é token=", "--token ", "\\", "hf_a", "pass:", "login a password", "identified by ",
]  # fmt: skip


def _cost(text: str, bound: float = 0.0) -> float:
    """The least of at most three measurements; one below the bound is enough."""
    least = math.inf
    for _ in range(3):
        started = time.process_time()
        secret_shapes.masked(text)
        if (least := min(least, time.process_time() - started)) < bound:
            break
    return least


@pytest.mark.parametrize("piece", PIECES)
def test_d02_masking_is_linear(piece):
    """Eight times the text costs some eight times as much, where squares would cost sixty-four."""
    few, many = (piece * (size // len(piece)) for size in (8_000, 64_000))
    bound = 28 * max(_cost(few), 0.0005)
    assert _cost(many, bound) < bound


def test_d02_all_texts_of_a_failure_have_one_bound(monkeypatch):
    """However many texts an error frame holds, and however long: what is read of them is bounded."""
    read = []
    masked = secret_shapes.masked
    monkeypatch.setattr(
        secret_shapes, "masked", lambda text: read.append(len(text)) or masked(text)
    )
    text = "@" + "a://" * 2_000
    for wide in (1, 10, 50):
        read.clear()
        details = {f"d{wide}{n}": [{"a": text, text: text}] * 10 for n in range(40 * wide)}
        failure = classify_error_payload(
            {
                "code": "X",
                "message": text,
                "details": details,
                "suggestions": [text] * 50,
                "violations": [details] * 50,
            }
        )
        assert sum(read) < 200_000
        assert len(read) < 5_000
        failure.explain(), failure.to_llm(), failure.to_dict()


def test_d02_a_deep_and_wide_value_is_walked_in_bounded_steps():
    """Fifty items to the sixth power are not looked at."""
    looked = []

    class Watched(list):
        def __iter__(self):
            looked.append(1)
            return super().__iter__()

    value: object = "x"
    for _ in range(6):
        value = Watched([value] * 50)
    redact_value(value)
    assert len(looked) < 3_000
