import { assert, describe, it } from "@effect/vitest"
import { Classifier, FailoverReason, ProviderFailure } from "@outlast/agent"
import * as KeyForm from "#agent/secrets/KeyForm"
import * as Redaction from "#agent/secrets/Redaction"
import * as fc from "fast-check"

/** Assembles a made-up key, so that no scanner takes it for a real one. */
const key = (...parts: ReadonlyArray<string>) => parts.join("")
const tail = "a1B2c3D4e5F6g7H8i9J0"
const hex = "a1b2c3d4e5f60718".repeat(2)

/** Keys of vendors, with the length of real ones or shorter. */
const keys: Readonly<Record<string, string>> = {
  Anthropic: key("sk-ant-", "api03-", tail, "_", tail, "-AA"),
  "Anthropic, made up": key("sk-ant-", "secret"),
  OpenAI: key("sk-", tail, tail),
  "OpenAI, of a project": key("sk-proj-", tail, "_", tail),
  "OpenAI, of a service account": key("sk-svcacct-", tail),
  OpenRouter: key("sk-or-", "v1-", hex, hex),
  DeepSeek: key("sk-", hex),
  Groq: key("gsk_", tail, tail),
  "Groq, made up": key("gsk_", "abcdefghijklmnopqrst"),
  xAI: key("xai-", tail, tail, tail),
  Perplexity: key("pplx-", tail, tail),
  HuggingFace: key("hf_", "AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGh"),
  "HuggingFace, made up": key("hf_", "abcdefghijklmnop"),
  Replicate: key("r8_", tail, tail.slice(0, 17)),
  Fireworks: key("fw_", tail, "abcd"),
  NVIDIA: key("nvapi-", tail, "-", tail),
  Cerebras: key("csk-", "k3m9x2w8v5t4p6h7r2n8c9d4"),
  Together: key("tgp_v1_", tail, "_", tail),
  Google: key("AIza", "SyA1234567890abcdefghijklmnopqrstuv"),
  "Google, the newer form": key("AQ.", "Ab8RN6", tail, tail),
  "Google OAuth": key("ya29.", "a0AfH6SMBx-", tail),
  "Google OAuth, of a service account": key("ya29.", "c.b0", tail),
  AWS: key("AKIA", "IOSFODNN7EXAMPLE"),
  "AWS, temporary": key("ASIA", "IOSFODNN7EXAMPLE"),
  Bedrock: key("ABSK", "QmVkcm9ja0FQSUtleS0xMjM0NTY3ODkw"),
  "Azure OpenAI": hex,
  GitHub: key("ghp_", tail, "abcdefghijklmnop"),
  "GitHub, fine-grained": key("github_pat_", "11", tail, "_", tail),
  Slack: key("xoxb-", "123456789012-", tail),
  Stripe: key("sk_live_", tail),
  npm: key("npm_", tail, "abcdefghijklmnop"),
  JWT: key("eyJ", "hbGciOiJIUzI1NiJ9", ".eyJ", "zdWIiOiIxMjM0NTY3ODkwIn0", ".dozjgNryP4J3jVmNHl0w5N_XgL0")
}

/** Keys that are detected only as a whole: inside a name they could be a word or an id. */
const inOnly = new Set(["Anthropic, made up", "Azure OpenAI"])

describe("the key of a vendor", () => {
  for (const [vendor, secret] of Object.entries(keys)) {
    it(`of ${vendor} is rejected as a name, and masked in a sentence as an unknown secret`, () => {
      assert.isTrue(KeyForm.mayBeKey(secret), "as a name")
      assert.isTrue(KeyForm.isKey(secret), "as a model")
      if (!inOnly.has(vendor)) {
        for (const name of [`Bearer ${secret}`, `gpt:${secret}`, `key=${secret}`, `a/${secret}/v1`]) {
          assert.isTrue(KeyForm.holdsKey(name), name)
        }
      }
      for (const said of [`got ${secret} from you`, `"${secret}"`, `x=${secret}&y=1`, `(${secret})`]) {
        assert.notInclude(Redaction.scrub(said, 500), secret.slice(0, 12))
      }
    })
  }

  it("without a prefix is masked after the name of a field", () => {
    const mistral = "k3M9x2W8v5T4p6H7r2N8c9D4f1G5j7L0"
    const azure = `${tail}${tail}${tail}${tail}abcd`
    const aws = key("wJalrXUtnFEMI/K7MDENG", "/bPxRfiCYEXAMPLEKEY")
    for (const [said, secret] of [
      [`MISTRAL_API_KEY=${mistral}`, mistral],
      [`Incorrect API key ${mistral} was given`, mistral],
      [`{"api-key":"${azure}"}`, azure],
      [`Ocp-Apim-Subscription-Key: ${azure}`, azure],
      [`aws_secret_access_key = ${aws}`, aws],
      [`"SecretAccessKey": "${aws}"`, aws],
      [`X-Amz-Security-Token=${tail}`, tail],
      [`X-Amz-Signature=${hex}0`, hex],
      ["GET /?X-Amz-Signature=feed&x=1", "feed"],
      ["Authorization: AWS4-HMAC-SHA256 Credential=AKID/2026/us, Signature=feed", "AKID"],
      ["AWS4-HMAC-SHA256 Credential=AKID/2026/us, SignedHeaders=host, Signature=feed", "feed"],
      [`{"refresh_token":"1//0g${tail}"}`, tail],
      [
        `{"type":"service_account","private_key_id":"${hex}","private_key":"-----BEGIN PRIVATE ${"KEY-----"}\\nMIIE"}`,
        "MIIE"
      ]
    ] as const) {
      assert.notInclude(Redaction.scrub(said, 500), secret, said)
    }
  })
})

describe("a name", () => {
  it("that people would choose is not a key", () => {
    for (const name of [
      "ANTHROPIC_API_KEY",
      "ANTHROPIC_API_KEY_2",
      "GOOGLE_GENERATIVE_AI_API_KEY",
      "AWS_BEARER_TOKEN_BEDROCK",
      "HF_TOKEN",
      "hf_token",
      "hf_api_token",
      "xai_api_key",
      "XAI_API_KEY",
      "sk_test",
      "my_openai_key",
      "openAiKey2",
      "prodOpenAiApiKey2024",
      "MyCompanyProductionOpenAiApiKeyForEurope",
      "OAUTH2_TOKEN",
      "S3_KEY",
      "KEY_EU1_20260101",
      "_private",
      "key",
      "key-1",
      "llm key",
      "prod/claude",
      "CLAUDE_OAUTH"
    ]) {
      assert.isFalse(KeyForm.mayBeKey(name), name)
    }
  })

  it("of random characters is a key", () => {
    const chars = [..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"]
    const word = (from: ReadonlyArray<string>, length: number) =>
      fc.array(fc.constantFrom(...from), { minLength: length, maxLength: length })
    const made = fc
      .oneof(
        word([..."0123456789abcdef"], 32),
        word(chars, 32),
        word(chars, 40),
        word([..."abcdefghijklmnopqrstuvwxyz234567"], 40)
      )
      .map((all) => all.join(""))
      .filter((secret) => /[0-9]/.test(secret))
    fc.assert(fc.property(made, (secret) => assert.isTrue(KeyForm.mayBeKey(secret), secret)))
  })
})

it("the name of a model is not a key", () => {
  for (const model of [
    "claude-sonnet-4-5-20250929",
    "gpt-4o-2024-08-06",
    "ft:gpt-4o-mini-2024-07-18:acme:suffix:9xYz1AbC",
    "anthropic.claude-sonnet-4-5-20250929-v1:0",
    "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-5",
    "accounts/fireworks/models/llama-v3p1-405b-instruct",
    "meta-llama/Llama-3.3-70B-Instruct-Turbo",
    `owner/model:${hex}${hex}`,
    "pplx-70b-online",
    "xai-grok-4-fast-reasoning",
    "hf:mistralai/Mistral-7B",
    "qwen3:8b",
    "o3",
    "owner/sk-learn-classifier-v2",
    "task-management-model-2025",
    "ft:gpt-4o:7c9e6679-7425-40de-944b-e07fc1f90ae7",
    "disk-3f9a7c1e5b2d8f604a6e0c9b7d135f82",
    "Bearer-of-news 7b"
  ]) {
    assert.isFalse(KeyForm.isKey(model), model)
    assert.isFalse(KeyForm.holdsKey(model), model)
  }
})

describe("a known secret", () => {
  const secret = "opaque.value/with+odd=chars"

  it("is masked when a server quotes a part of it or changes its case", () => {
    for (const said of [
      `key ${secret.slice(0, 18)}… is wrong`,
      `ends with ${secret.slice(-18)}`,
      secret.toUpperCase(),
      `https://${secret.toLowerCase()}.example`
    ]) {
      const clean = Redaction.scrub(said, 300, { values: ["opaque", secret] })
      assert.notMatch(clean, /opaque|with\+odd/i)
    }
  })

  it("is masked in Base64, alone or after other bytes", () => {
    // Some with bytes that Base64url encodes differently.
    for (const known of [secret, `${secret}?>~`, `${secret}~~`, `${secret}ÿ~~`]) {
      for (const text of [
        known,
        `u:${known}`,
        `me:${known}`,
        `you:${known}`,
        `${known}:x`,
        `user:${known}:more`
      ]) {
        for (const encoding of ["base64", "base64url"] as const) {
          const encoded = Buffer.from(text).toString(encoding)
          const clean = Redaction.scrub(`we got ${encoded} here`, 300, { values: [known] })
          assert.notInclude(clean, encoded.slice(8, 16), text)
          assert.notInclude(clean, encoded.slice(-10), text)
          assert.match(clean, /^we got .*\[redacted\] here$/)
        }
      }
    }
  })

  it("is not in the evidence of a failure at its target", () => {
    const failure = new ProviderFailure.ProviderFailure({
      reason: new FailoverReason.Network(),
      evidence: { rule: "r", signal: "local", depth: 0, matched: `x ${secret}`, requestId: secret },
      detail: ""
    })
    const target = { id: "t", provider: "p", model: "m", endpoint: "", key: "K" }
    assert.notInclude(JSON.stringify(failure.at(target, { values: [secret] })), secret)
  })

  it("does not break the classifier when it has special characters of regular expressions", () => {
    const failure = Classifier.failureOf(new Error("(a+b) [c"), {
      secrets: { values: ["(a+b)*[c] \\d{2,3}$^|"] }
    })
    assert.strictEqual(failure.reason._tag, "Unknown")
  })
})

// These tests have no time limit: `npm run bench -- classifier` measures time. With more than linear time they
// would not end.
describe("reads a megabyte of the beginning of a key", () => {
  for (const part of [
    "AQ.",
    "ABSK",
    "ABSK+",
    "ya29.",
    "ya29.a.",
    "1//0",
    "Signature=",
    "x-amz-credential=",
    "hf_",
    "r8_a",
    "sk_",
    "key_A",
    "a.",
    "eyJaaaaaaaaaa..",
    "aB3"
  ]) {
    it(JSON.stringify(part), () => {
      const text = part.repeat(Math.ceil(1_000_000 / part.length))
      assert.isAtMost(Redaction.scrub(text, 1_000, { values: ["aB3aB3aB3aB3aB3aB3x"] }).length, 1_001)
      assert.isTrue(KeyForm.mayBeKey(text))
      KeyForm.isKey(text)
      KeyForm.holdsKey(text)
    })
  }
})
