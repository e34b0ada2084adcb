import { assert, describe, it } from "@effect/vitest"
import { Classifier } from "@outlast/agent"
import * as Redaction from "#agent/secrets/Redaction"

const scrub = (text: string) => Redaction.scrub(text, 1_000)

/** Assembles a made-up key, so that no scanner takes it for a real one. */
const key = (...parts: ReadonlyArray<string>) => parts.join("")
const tail = "a1B2c3D4e5F6g7H8i9J0"

describe("masks an unknown secret by its form", () => {
  const keys: ReadonlyArray<string> = [
    key("sk-", tail),
    key("sk-ant-", "api03-", tail),
    key("sk_live_", tail),
    key("AKIA", "IOSFODNN7EXAMPLE"),
    key("ASIA", "IOSFODNN7EXAMPLE"),
    key("nvapi-", tail),
    key("pplx-", tail, tail),
    key("r8_", tail),
    key("ya29.", "a0AfH6SMBx-", tail),
    ...["ghp_", "gho_", "ghs_", "github_pat_11", "glpat-", "xoxb-", "xoxp-", "hf_", "gsk_", "xai-"].map(
      (prefix) => key(prefix, tail)
    ),
    key("AIza", "SyA1234567890abcdef"),
    key("eyJ", "hbGciOiJIUzI1NiJ9", ".eyJ", "zdWIiOiIxMjM0NTY3ODkwIn0", ".dozjgNryP4J3jVmNHl0w5N_XgL0")
  ]
  for (const secret of keys) {
    it(secret.slice(0, 10), () => {
      for (const said of [
        `The key ${secret} is wrong`,
        `[key=${secret}]`,
        `"${secret}"`,
        `MY_KEY_${secret}, ok`
      ]) {
        const clean = scrub(said)
        assert.notInclude(clean, tail.slice(0, 8))
        assert.notInclude(clean, secret.slice(0, 16))
      }
      assert.strictEqual(scrub(`The key ${secret} is wrong`), "The key [redacted] is wrong")
    })
  }

  const credentials: ReadonlyArray<readonly [said: string, secret: string]> = [
    ["Authorization: Basic dXNlcjpwYXNzd29yZA==", "dXNlcjpwYXNz"],
    ["sent Basic dXNlcjpwYXNzd29yZA== to the host", "dXNlcjpwYXNz"],
    ["authorization: basic dTpw", "dTpw"],
    ["Authorization: Bearer hunter2", "hunter2"],
    ["the header was bearer hunter2, which is wrong", "hunter2"],
    ["BEARER   hunter2", "hunter2"],
    ["x-api-key: hunter2", "hunter2"],
    ["X-Goog-Api-Key: hunter2", "hunter2"],
    ["api-key: hunter2", "hunter2"],
    ["api-key:hunter2", "hunter2"],
    ["api_key=hunter2", "hunter2"],
    ["OPENAI_API_KEY=hunter2", "hunter2"],
    ["apikey=hunter2", "hunter2"],
    ["GET https://host/v1?key=hunter2 failed", "hunter2"],
    ["GET https://host/v1?alt=sse&key=hunter2&x=1 failed", "hunter2"],
    ["GET https://host/v1?access_token=hunter2 failed", "hunter2"],
    ["password=hunter2", "hunter2"],
    ["password: 'hunter2 and more'", "and more"],
    ["client_secret=hunter2", "hunter2"],
    ["secret=hunter2", "hunter2"],
    ['{"api_key":"hunter2"}', "hunter2"],
    ['{"api_key": "hunter2 and more"}', "and more"],
    ['{"apiKey":"hunter2"}', "hunter2"],
    ["{'api_key': 'hunter2'}", "hunter2"],
    ['{\\"api_key\\":\\"hunter2\\"}', "hunter2"],
    ['{\\\\\\"api_key\\\\\\":\\\\\\"hunter2\\\\\\"}', "hunter2"],
    ['{"password":"x\\"hunter2"}', "hunter2"],
    ["api_key%3Dhunter2", "hunter2"],
    ["Incorrect API key provided: hunter2. Find yours in the console.", "hunter2"],
    ["Invalid API key: hunter2", "hunter2"],
    ["api key=hunter2", "hunter2"],
    ["X-API-KEY : hunter2", "hunter2"],
    ["'api_key' => 'hunter2'", "hunter2"],
    ["Authorization: ApiKey hunter2", "hunter2"],
    ['Authorization: Token token="hunter2"', "hunter2"],
    ["token=hunter2", "hunter2"],
    ["Bearer\nhunter2", "hunter2"],
    ["connect to https://user:hunter2@host/v1 failed", "hunter2"],
    ["connect to https://hunter2@host/v1 failed", "hunter2"],
    ["connect to https://user:p%40hunter2@host/v1 failed", "hunter2"]
  ]
  for (const [said, secret] of credentials) {
    it(said, () => {
      assert.notInclude(scrub(said), secret)
      assert.include(scrub(said), Redaction.mask)
      assert.strictEqual(scrub(scrub(said)), scrub(said))
    })
  }

  it("leaves names and hosts next to a secret", () => {
    assert.strictEqual(
      scrub("GET https://u:p@host/v1?key=abc&alt=sse failed"),
      "GET https://[redacted]@host/v1?key=[redacted]&alt=sse failed"
    )
    assert.strictEqual(scrub('{"api_key":"abc","model":"m"}'), '{"api_key":"[redacted]","model":"m"}')
    assert.strictEqual(scrub("x-api-key: abc, x-other: d"), "x-api-key: [redacted], x-other: d")
  })

  it("keeps the secret out of a failure", () => {
    const failure = Classifier.failureOf({
      statusCode: 401,
      message: `Refused: x-api-key: hunter2 at https://u:hunter2@host?key=hunter2, Basic aHVudGVyMjpodW50ZXIy`,
      responseHeaders: { "request-id": key("sk-", tail) }
    })
    assert.notInclude(JSON.stringify(failure) + failure.message, "hunter2")
    assert.notInclude(JSON.stringify(failure) + failure.message, "aHVudGVyMjpodW50ZXIy")
    assert.notInclude(JSON.stringify(failure), tail)
  })
})

describe("a short value, which is a placeholder rather than a key,", () => {
  it("is masked as a word, and leaves other words readable", () => {
    for (const [value, said, clean] of [
      ["k", "tokens of the key k: 5", "tokens of the key [redacted]: 5"],
      ["none", "nonesuch: Bearer none.", "nonesuch: Bearer [redacted]."]
    ] as const) {
      assert.strictEqual(Redaction.scrub(said, 100, { values: [value] }), clean)
    }
  })
})

describe("leaves prose unchanged", () => {
  const prose: ReadonlyArray<string> = [
    "api key is invalid",
    "The API key: is invalid",
    "x-api-key header is required",
    "x-api-key: required",
    "api_key: Field required",
    '{"api_key":null}',
    "keyword=foo",
    "key=foo",
    "token limit",
    "token limit: 5",
    "token: 5",
    "next_token=5",
    "the session ID is sess_0123456789",
    "max_tokens=4096, total_tokens=5",
    "password=",
    "password= is empty",
    "the password is wrong",
    "the secret of success",
    "No bearer token was sent",
    "Bearer token is invalid",
    "Bearer authentication failed",
    "bearer realm=x",
    "basic authentication failed",
    "Basic Authentication failed",
    "the basic plan",
    "risk-based, task-oriented, sk-learn, scikit-learn-compatible, ask-somebody-else",
    "key-value, key_not_found, key-management",
    "hf_hub_download failed",
    "npm_config_registry, npm-install",
    "the signature of the method, Signature: a string",
    "model pplx-70b-online is not known",
    "https://host/v1?alt=sse&x=a@b.c",
    "https://host:443/v1/models",
    "mail me at somebody@host",
    "xoxo",
    "eyJ is how base64 of JSON begins"
  ]
  for (const said of prose) it(said, () => assert.strictEqual(scrub(said), said))
})

// These tests have no time limit: `npm run bench -- classifier` measures time. With more than linear time they
// would not end.
describe("reads a megabyte of the beginning of a secret", () => {
  const parts = [
    "\\",
    "\\\\u",
    '\\"',
    "sk-",
    "eyJ",
    "eyJhbGciOiJIUzI1NiJ9.",
    "-eyJ",
    "Bearer ",
    "bearer          ",
    "basic ",
    "Basic aB",
    "api_key=",
    "api_key:  ",
    'api_key:"',
    'api_key":"\\',
    "authorization: basic ",
    "?key=",
    "://",
    "://a:b",
    "a:b@",
    "key-",
    "key_a",
    "ya29.",
    "abcdef01",
    "%41",
    "%",
    "AKIA",
    " "
  ]
  for (const part of parts) {
    it(JSON.stringify(part), () => {
      const text = part.repeat(Math.ceil(1_000_000 / part.length))
      assert.isAtMost(scrub(text).length, 1_001)
    })
  }
})

it("masks an echo of the prompt in different case", () => {
  const prompt =
    "Zebrafish quantum accordion prophecy. Ο ΔΡΟΜΟΣ ΑΝΟΙΓΕΙ ΞΑΝΑ. İstanbul'da güzel bir gün daha."
  for (const echo of [
    "ZEBRAFISH QUANTUM ACCORDION",
    "zebrafish quantum accordion",
    "Ο ΔΡΟΜΟΣ ΑΝΟΙΓΕΙ ΞΑΝΑ",
    "ο δρομος ανοιγει ξανα",
    "Güzel BIR gün daha"
  ]) {
    const said = Redaction.scrub(`cannot do ${echo}; sorry`, 1_000, { prompt: [prompt] })
    assert.strictEqual(said, "cannot do [redacted]; sorry")
  }
})
