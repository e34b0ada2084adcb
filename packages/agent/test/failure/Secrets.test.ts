import { assert, describe, it } from "@effect/vitest"
import * as Redaction from "#agent/secrets/Redaction"

const scrub = (text: string) => Redaction.scrub(text, 1_000)

/** Assembles a made-up key, so that no scanner takes it for a real one. */
const join = (...parts: ReadonlyArray<string>) => parts.join("")
const secret = join("Zx9Qw8Er", "7Ty6Ui5Op4")
const plain = join("1AbCdEfGhIjKlMn", "OpQrStUvWxYz012345")
const uuid = join("1a2b3c4d-5e6f-7a8b-", "9c0d-1e2f3a4b5c6d")
const hex = "0123456789abcdef".repeat(2)

describe("masks a secret after a word for one", () => {
  const said: ReadonlyArray<readonly [said: string, clean: string]> = [
    [`the key ${hex}.${secret} is wrong`, "the key [redacted] is wrong"],
    [`{"token":"${secret}"}`, '{"token":"[redacted]"}'],
    [`{"key": "${secret}"}`, '{"key": "[redacted]"}'],
    [`{\\"token\\":\\"${secret}\\"}`, '{"token":"[redacted]"}'],
    [`Incorrect API key ${secret} was given`, "Incorrect API key [redacted] was given"],
    [`invalid subscription key ${plain}`, "invalid subscription key [redacted]"],
    [`Invalid token ${secret}.`, "Invalid token [redacted]"],
    [`API key ${uuid} is unknown`, "API key [redacted] is unknown"],
    [`API key "${secret}" is unknown`, 'API key "[redacted]" is unknown'],
    [`Incorrect API key provided:\n  ${secret}`, "Incorrect API key provided: [redacted]"],
    ["Incorrect API key provided:\n  hunter2", "Incorrect API key provided: [redacted]"],
    [`API key：${secret}`, "API key：[redacted]"],
    [`API密钥：${secret}`, "API密钥：[redacted]"],
    [`无效的令牌 ${secret}`, "无效的令牌 [redacted]"],
    [`无效的令牌（${secret}）`, "无效的令牌（[redacted]）"],
    [`authorization: Custom ${secret}`, "authorization: [redacted]"],
    [`"authorization": "Custom ${secret}"`, '"authorization": "[redacted]"'],
    [`cookie: sid=${secret}; theme=dark`, "cookie: [redacted]"],
    [`Set-Cookie: __Secure-a=${secret}; Path=/; HttpOnly`, "Set-Cookie: [redacted]"]
  ]
  for (const [text, clean] of said) {
    it(text, () => {
      assert.strictEqual(scrub(text), clean)
      assert.strictEqual(scrub(clean), clean)
    })
  }
})

describe("masks a secret with a known form", () => {
  const secrets: ReadonlyArray<string> = [
    join("bce-v3/", "ALTAK-", secret, "/", hex),
    join("ALTAK-", secret),
    join("GOCSPX-", secret),
    join(
      "-----BEGIN RSA PRIVATE ",
      "KEY-----\nMIIEvAIBADANBgkq\nhkiG9w0+/=\n-----END RSA PRIVATE ",
      "KEY-----"
    ),
    join("-----BEGIN EC PRIVATE ", "KEY-----\\nMIIEvAIBADANBgkqhkiG9w0")
  ]
  for (const one of secrets) {
    it(one.slice(0, 12), () => assert.strictEqual(scrub(`got '${one}'`), "got '[redacted]'"))
  }
})

describe("leaves prose unchanged", () => {
  for (const said of [
    "invalid token count",
    "invalid token count 12345678 given",
    "api key is invalid",
    '{"key":"value"}',
    '{"key":"claude-3-5-sonnet-20241022"}',
    '{"token":"Unexpected"}',
    "the key Qwen2.5-72B-Instruct is not known",
    "a token of gpt-4o-2024-08-06",
    "keys: max_tokens, temperature_2",
    "token authentication",
    `the request ${uuid} failed`,
    "API密钥：无效",
    "API密钥：已过期",
    "无效的令牌",
    "cookie: is missing",
    "enable cookies: they are needed",
    "-----BEGIN",
    "Authorization: header is missing"
  ]) {
    it(said, () => assert.strictEqual(scrub(said), said))
  }
})

// These tests have no time limit: `npm run bench -- classifier` measures time. With more than linear time they
// would not end.
describe("reads a megabyte of the beginning of a secret", () => {
  for (const part of [
    "key ",
    "token ",
    "token: ",
    "key is ",
    'key"',
    "密钥：",
    "令牌 a1",
    "cookie: a",
    "cookie: a=",
    "cookie: a=b; ",
    "a=b;",
    "authorization: a ",
    "authorization: a b",
    "-----BEGIN A-----",
    "-----BEGIN ",
    "-----",
    "-",
    "bce-v3/",
    "ALTAK-",
    "GOCSPX-",
    "0123456789abcdef.",
    "a1",
    "key a1"
  ]) {
    it(JSON.stringify(part), () => {
      const text = part.repeat(Math.ceil(1_000_000 / part.length))
      assert.isAtMost(scrub(text).length, 1_001)
    })
  }
})

describe("masks echoes of a prompt", () => {
  const filler = (n: number) =>
    Array.from({ length: n }, (_, i) => `line ${i} of a long and ordinary conversation`).join("\n")
  const echoed = "my very private question about money"
  const error = `The request '${echoed}' was refused for a reason that is not told, as it may happen.`
  const clean = Redaction.scrub(error, 300, { prompt: [echoed] })

  it("masks an echo at any position of the prompt", () => {
    assert.notInclude(clean, "private")
    for (const prompt of [
      [filler(10_000), echoed],
      [`${filler(10_000)}${echoed}${filler(100)}`],
      [echoed, filler(10_000)],
      [`  my very\nprivate   question\tabout\u00a0money `]
    ]) {
      assert.strictEqual(Redaction.scrub(error, 300, { prompt }), clean)
    }
  })

  it("masks an echo next to a megabyte of text that is almost one", () => {
    for (const filling of [
      [filler(20_000)],
      Array.from({ length: 30_000 }, (_, i) => `a text of tool ${i}`),
      [`${error.slice(0, 12)}x`.repeat(60_000)],
      ["中文的内容".repeat(150_000)]
    ]) {
      assert.notInclude(Redaction.scrub(error, 300, { prompt: [...filling, echoed] }), "private")
    }
  })

  it("searches echoes only in the newest megabyte of the prompt", () => {
    const prompt = [echoed, "x".repeat(Redaction.maxPrompt)]
    assert.include(Redaction.scrub(error, 300, { prompt }), "private")
    assert.strictEqual(Redaction.scrub(error, 300, { prompt: prompt.toReversed() }), clean)
  })
})
