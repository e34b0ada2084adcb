import { assert, describe, it } from "@effect/vitest"
import { KeySource } from "@outlast/agent"
import type { ProviderModel } from "@outlast/agent"
import { Options } from "@outlast/resilience"
import { AiSdk, Anthropic, Google, OpenAi, OpenAiCompatible } from "@outlast/providers"
import { Cause, ConfigProvider, Effect, Redacted } from "effect"
import { inspect } from "node:util"
import * as Support from "./support.ts"

interface VendorOptions extends AiSdk.CommonOptions {
  readonly fetch?: typeof globalThis.fetch
}

interface Vendor {
  readonly name: string
  readonly header: string
  readonly prefix: string
  readonly variable: string | undefined
  readonly target: (url: string, options?: VendorOptions) => ProviderModel.TargetSpec
}

const vendors: ReadonlyArray<Vendor> = [
  {
    name: "Anthropic",
    header: "x-api-key",
    prefix: "",
    variable: "ANTHROPIC_API_KEY",
    target: (url, options) => Anthropic.model("claude-sonnet-4-5", { baseUrl: `${url}/v1/`, ...options })
  },
  {
    name: "OpenAI Responses",
    header: "authorization",
    prefix: "Bearer ",
    variable: "OPENAI_API_KEY",
    target: (url, options) => OpenAi.model("gpt-5", { baseUrl: `${url}/v1/`, ...options })
  },
  {
    name: "OpenAI Chat",
    header: "authorization",
    prefix: "Bearer ",
    variable: "OPENAI_API_KEY",
    target: (url, options) => OpenAi.chatModel("gpt-4o", { baseUrl: `${url}/v1/`, ...options })
  },
  {
    name: "Google",
    header: "x-goog-api-key",
    prefix: "",
    variable: "GOOGLE_GENERATIVE_AI_API_KEY",
    target: (url, options) => Google.model("gemini-2.5-pro", { baseUrl: `${url}/v1/`, ...options })
  },
  {
    name: "an OpenAI-compatible server",
    header: "authorization",
    prefix: "Bearer ",
    variable: undefined,
    target: (url, options) =>
      OpenAiCompatible.model({ name: "local", model: "m", baseUrl: `${url}/v1/`, ...options })
  }
]

const credentials = new Set(["x-api-key", "authorization", "x-goog-api-key", "api-key"])

/** The headers with a key, as received. */
const sent = (hit: Support.Hit | undefined): ReadonlyArray<string> =>
  (hit?.rawHeaders ?? []).flatMap((name, i, all) =>
    i % 2 === 0 && credentials.has(name.toLowerCase()) ? [`${name.toLowerCase()}: ${all[i + 1]}`] : []
  )

describe.each(vendors)("the key of $name", ({ header, prefix, variable, target }) => {
  it.effect("is sent once, in one header, in calls and streams", () =>
    Effect.gen(function* () {
      const server = yield* Support.serve((response) => Support.json(response, {}, 500))
      const model = yield* target(server.url).build
      for (const value of ["key-one", "key-two", "key-one"]) {
        const request = yield* Support.request("hello", { key: Redacted.make(value) })
        yield* Effect.ignore(Effect.scoped(model.generateText(request) as Effect.Effect<unknown, unknown>))
      }
      yield* Support.collect(target(server.url), "hello", { key: Redacted.make("key-two") })
      assert.deepStrictEqual(
        server.hits.map(sent),
        ["key-one", "key-two", "key-one", "key-two"].map((key) => [`${header}: ${prefix}${key}`])
      )
    }).pipe(Effect.scoped)
  )

  it.effect("is not read from the environment by the client", () =>
    Effect.gen(function* () {
      const server = yield* Support.serve((response) => Support.json(response, {}, 500))
      if (variable !== undefined) {
        const before = process.env[variable]
        process.env[variable] = "from-the-environment"
        yield* Effect.addFinalizer(() =>
          Effect.sync(() => {
            if (before === undefined) delete process.env[variable]
            else process.env[variable] = before
          })
        )
      }
      yield* Effect.ignore(Support.generate(target(server.url), "hello", { key: undefined }))
      assert.lengthOf(server.hits, 1)
      assert.deepStrictEqual(sent(server.hits[0]), [])
    })
  )

  it.effect("is replaced by a header of the program, in any letter case", () =>
    Effect.gen(function* () {
      const server = yield* Support.serve((response) => Support.json(response, {}, 500))
      const headers = { [header.toUpperCase()]: "mine", "X-Gateway": "yes" }
      yield* Effect.ignore(Support.generate(target(server.url, { headers })))
      assert.deepStrictEqual(sent(server.hits[0]), [`${header}: mine`])
      assert.strictEqual(server.hits[0]?.headers["x-gateway"], "yes")
    })
  )

  it.effect("appears in no failure, nor do the prompt and the program's headers", () =>
    Effect.gen(function* () {
      const secret = "opaque.value/with+odd=chars"
      const prompt = "the launch code of the rocket is four seven eleven"
      const body = { error: { message: `bad key ${secret} (${prompt}) via gateway-secret-value`, type: "x" } }
      const server = yield* Support.serve((response) => Support.json(response, body, 401))
      const spec = target(server.url, { headers: { "x-gateway": "Token gateway-secret-value" } })
      const cause = yield* Effect.flip(
        Effect.sandbox(Support.generate(spec, prompt, { key: Redacted.make(secret) }))
      )
      const model = yield* Effect.scoped(spec.build)
      const all = { depth: 10, showHidden: true }
      for (const shown of [Cause.pretty(cause), inspect([cause, spec, model], all), JSON.stringify(cause)]) {
        assert.notInclude(shown, secret)
        assert.notInclude(shown, "four seven eleven")
        assert.notInclude(shown, "gateway-secret")
      }
      assert.include(Cause.pretty(cause), "bad key")
    })
  )

  it.effect("goes through a custom fetch", () =>
    Effect.gen(function* () {
      const urls: Array<string> = []
      const spec = target("http://nowhere.invalid", {
        fetch: (url) => {
          urls.push(String(url))
          return Promise.resolve(new Response("{}", { status: 529 }))
        }
      })
      assert.strictEqual((yield* Effect.flip(Support.generate(spec))).evidence.status, 529)
      assert.strictEqual((yield* Support.collect(spec)).failure?.evidence.status, 529)
      assert.lengthOf(urls, 2)
      for (const url of urls) assert.match(url, /^http:\/\/nowhere\.invalid\/v1\/./)
    })
  )

  it.effect("fails as a wrong key does when no header can carry it", () =>
    Effect.gen(function* () {
      const server = yield* Support.serve((response) => Support.json(response, {}, 500))
      for (const wrong of ["key\u200b-one", "key\n-one"]) {
        const key = Redacted.make(wrong)
        const failure = yield* Effect.flip(Support.generate(target(server.url), "hello", { key }))
        assert.strictEqual(failure.reason._tag, "Auth")
        assert.strictEqual(
          (yield* Support.collect(target(server.url), "hello", { key })).failure?.reason._tag,
          "Auth"
        )
      }
      assert.lengthOf(server.hits, 0)
      yield* Effect.ignore(Support.generate(target(server.url), "hello", { key: Redacted.make("key-one\n") }))
      assert.deepStrictEqual(sent(server.hits[0]), [`${header}: ${prefix}key-one`])
    })
  )

  it.effect("comes from the configuration by its name, in order", () =>
    Effect.gen(function* () {
      const { keys } = target("http://localhost", { keys: ["FIRST", "SECOND"] })
      assert.deepStrictEqual(
        keys.map(({ name }) => name),
        ["FIRST", "SECOND"]
      )
      const loaded = yield* Effect.forEach(keys, ({ load }) => load).pipe(
        Effect.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({ FIRST: "1", SECOND: "2" })))
      )
      assert.deepStrictEqual(loaded.map(Redacted.value), ["1", "2"])
      const byDefault = target("http://localhost").keys.map(({ name }) => name)
      assert.deepStrictEqual(byDefault, variable === undefined ? [] : [variable])
    })
  )

  it("belongs to an endpoint without trailing slash", () => {
    assert.strictEqual(target("http://localhost:1").endpoint, "http://localhost:1/v1")
  })

  it("is not sent to an invalid base URL", () => {
    for (const wrong of ["not a url", "ftp://host", "https://user:secret@host", "https://host?key=secret"]) {
      assert.throws(() => target(wrong), RangeError, /baseUrl must be an http/)
    }
  })
})

/** Joined, so that no scanner reports a made-up key of these tests as a real one. */
const planted = ["sk-ant-", "api03-planted0123456789abcdef"].join("")
const plantedKeys = [
  planted,
  ["gsk_", "a1B2c3D4e5F6g7H8i9J0k1L2"].join(""),
  ["hf_", "abcdefghijklmnopqrstuvwxyz"].join(""),
  ["AIza", "SyA1234567890abcdef"].join(""),
  "a1b2c3d4e5f60718".repeat(2)
]

// Options of a program in JavaScript, or with a cast.
type Untyped = (key: unknown, options?: Readonly<Record<string, unknown>>) => unknown
const create = () => assert.fail("No client is made.")
const constructors: Readonly<Record<string, Untyped>> = {
  "Anthropic.model": (model, options) => Anthropic.model(model as string, options as object),
  "OpenAi.model": (model, options) => OpenAi.model(model as string, options as object),
  "OpenAi.chatModel": (model, options) => OpenAi.chatModel(model as string, options as object),
  "Google.model": (model, options) => Google.model(model as string, options as object),
  "OpenAiCompatible.model": (model, options) =>
    OpenAiCompatible.model({ name: "p", baseUrl: "http://localhost", ...options, model: model as string }),
  "AiSdk.model": (model, options) =>
    AiSdk.model({ provider: "p", create, ...options, model: model as string })
}

describe.each(Object.entries(constructors))("%s", (module, make) => {
  const refused = (field: string, model: unknown, options?: Readonly<Record<string, unknown>>) => {
    try {
      make(model, options)
    } catch (error) {
      assert.instanceOf(error, Options.InvalidOption)
      assert.include(error.message, `${module}: ${field} must be`)
      const all = inspect(error, { depth: 10, showHidden: true }) + String(error) + JSON.stringify(error)
      for (const key of plantedKeys) assert.notInclude(all, key)
      return error.message
    }
    return assert.fail(`${module} took ${field}.`)
  }

  it("refuses a key where its name belongs, without quoting it", () => {
    for (const key of plantedKeys) {
      const message = refused("keys[1]", "m", { keys: ["ANTHROPIC_API_KEY", key] })
      assert.include(message, 'keys: ["ANTHROPIC_API_KEY"]')
      assert.include(message, 'KeySource.value("name", Redacted.make(key))')
      refused("keys", "m", { keys: key })
      refused("keys[0].name", "m", { keys: [{ name: key, load: Effect.succeed(Redacted.make(key)) }] })
      refused("keys[0]", "m", { keys: [Redacted.make(key)] })
      refused("keys[0]", "m", { keys: [{ name: "K", value: key }] })
    }
  })

  it("refuses keys that are not a list of names and sources", () => {
    for (const keys of ["K", [], {}, 1, true]) refused("keys", "m", { keys })
    for (const key of [undefined, null, 1, "", " K", "MY-KEY", {}, () => planted]) {
      refused("keys[0]", "m", { keys: [key] })
    }
    make("m", { keys: ["K", KeySource.value(Redacted.make(planted))] })
  })

  it("refuses a key where the name of a model belongs, without quoting it", () => {
    for (const key of [...plantedKeys, ` ${planted}\n`]) refused("model", key)
  })

  // A custom client has its own `fetch`.
  if (module !== "AiSdk.model") {
    it("refuses a fetch that is not a function", () => {
      refused("fetch", "m", { fetch: planted })
    })
  }

  it("refuses headers that cannot be sent, without quoting them", () => {
    for (const headers of [planted, [planted], null, { [planted]: "x" }, { "a b": planted }]) {
      refused("headers", "m", { headers })
    }
    for (const value of [`${planted}\nx`, `${planted}\u200bx`, 1, null, undefined, [planted]]) {
      refused("headers.authorization", "m", { headers: { authorization: value } })
    }
  })
})

it("a name with a key anywhere in it is refused without quoting it", () => {
  const baseUrl = "http://localhost/v1"
  for (const make of [
    () => OpenAiCompatible.model({ name: `Bearer ${planted}`, baseUrl, model: "m" }),
    () => OpenAiCompatible.model({ name: `key ${planted}`, baseUrl, model: "m" }),
    () => OpenAiCompatible.model({ name: "p", baseUrl, model: `gpt:${planted}` }),
    () => AiSdk.model({ provider: `acme:${planted}`, model: "m", create })
  ]) {
    try {
      make()
      assert.fail("It was taken.")
    } catch (error) {
      assert.instanceOf(error, Options.InvalidOption)
      assert.notInclude(inspect(error, { depth: 10, showHidden: true }), planted)
    }
  }
  const fineTuned = "ft:gpt-4o:acme::7c9e6679-7425-40de-944b-e07fc1f90ae7"
  assert.strictEqual(OpenAiCompatible.model({ name: "p", baseUrl, model: fineTuned }).model, fineTuned)
})

it("a base URL with an id in it is taken", () => {
  for (const baseUrl of [
    "https://gateway.ai.cloudflare.com/v1/0123456789abcdef0123456789abcdef/gateway/openai",
    "https://host/projects/7c9e6679-7425-40de-944b-e07fc1f90ae7/v1",
    "https://task-management.example.com/keys/v1",
    "https://host/key-management/tokens"
  ]) {
    assert.strictEqual(Anthropic.model("m", { baseUrl }).endpoint, baseUrl)
  }
})

it("a base URL with a key in it is refused without quoting it", () => {
  for (const baseUrl of [
    `https://${planted}@host/v1`,
    `https://user:${planted}@host/v1`,
    `https://host/v1?key=${planted}`,
    `https://host/${planted}/v1`,
    `https://host/v1#${planted}`,
    `https://host/v1/key=${planted}`,
    `https://host/v1;key=${planted}`,
    `https://host/v1/token%3D${planted}`,
    `https://host/v1/token%253D${planted}`,
    `https://host/v1/${planted.replaceAll("-", "%2D")}`,
    `https://host/bot${planted}/v1`,
    `https://bot${plantedKeys[3]}.host/v1`,
    "https://host/v1/key=planted0123",
    `${planted}://host`,
    planted
  ]) {
    try {
      Anthropic.model("m", { baseUrl })
      assert.fail("It was taken.")
    } catch (error) {
      assert.instanceOf(error, Options.InvalidOption)
      assert.notInclude(inspect(error, { depth: 10, showHidden: true }), planted)
    }
  }
  const inPath = () => Anthropic.model("m", { baseUrl: `https://host/${planted}/v1` })
  assert.throws(inPath, "baseUrl must be an http(s) URL without a key in its host or path")
})

describe("the headers of the user", () => {
  const headers: ReadonlyArray<readonly [header: Record<string, string>, said: string]> = [
    [{ authorization: "Bearer hunter2" }, "hunter2"],
    [{ "X-Api-Key": "hunter2" }, "hunter2"],
    [{ authorization: `Basic ${btoa("bob:hunter2")}` }, "hunter2"],
    [{ cookie: "sid=hunter2" }, "sid=hunter2"],
    [{ "x-team": "gateway-hunter2" }, "gateway-hunter2"]
  ]
  for (const [header, said] of headers) {
    it.effect(`are in no failure: ${Object.keys(header).join()} ${said}`, () =>
      Effect.gen(function* () {
        const body = { error: { message: `You said ${said} and that is wrong`, type: "x", code: said } }
        const server = yield* Support.serve((response) => {
          response.setHeader("x-request-id", said)
          Support.json(response, body, 401)
        })
        const spec = Anthropic.model("m", { baseUrl: `${server.url}/v1`, headers: header })
        const failure = yield* Effect.flip(Support.generate(spec))
        assert.include(failure.message, "You said [redacted] and that is wrong")
        assert.notInclude(inspect(failure, { depth: 10, showHidden: true }), "hunter2")
      })
    )
  }
})

it.effect("a Headers instance is sent, and its values are in no failure", () =>
  Effect.gen(function* () {
    const body = { error: { message: "You said gateway-hunter2 and that is wrong", type: "x" } }
    const server = yield* Support.serve((response) => Support.json(response, body, 401))
    const headers = new Headers({ "X-Team": "gateway-hunter2" })
    const spec = Anthropic.model("m", { baseUrl: `${server.url}/v1`, headers })
    const failure = yield* Effect.flip(Support.generate(spec))
    assert.strictEqual(server.hits[0]?.headers["x-team"], "gateway-hunter2")
    assert.include(failure.message, "You said [redacted] and that is wrong")
  })
)

describe("any other client", () => {
  it.effect("is made once per key, and at most 32 are kept", () =>
    Effect.gen(function* () {
      const made: Array<string | undefined> = []
      const spec = AiSdk.model({
        provider: "p",
        model: "m",
        create: (key) => {
          made.push(key)
          return {
            specificationVersion: "v4",
            provider: "p",
            modelId: "m",
            doGenerate: () => Promise.reject(new Error("no")),
            doStream: () => Promise.reject(new Error("no"))
          }
        }
      })
      const model = yield* spec.build
      const use = (key: string) =>
        Effect.flatMap(Support.request("hello", { key: Redacted.make(key) }), (request) =>
          Effect.ignore(model.generateText(request) as Effect.Effect<unknown, unknown>)
        )
      yield* Effect.forEach(["a", "b", "a"], use)
      assert.deepStrictEqual(made, ["a", "b"])
      yield* Effect.forEach(
        Array.from({ length: 31 }, (_, i) => `k${i}`),
        use
      )
      made.length = 0
      yield* Effect.forEach(["b", "a"], use)
      assert.deepStrictEqual(made, ["a"])
    }).pipe(Effect.scoped)
  )

  it.effect("that cannot be made fails the attempt", () =>
    Effect.gen(function* () {
      const spec = AiSdk.model({
        provider: "p",
        model: "m",
        create: () => {
          throw Object.assign(new Error("no key"), { name: "AI_LoadAPIKeyError" })
        }
      })
      assert.strictEqual((yield* Effect.flip(Support.generate(spec))).reason._tag, "Auth")
      assert.strictEqual((yield* Support.collect(spec)).failure?.reason._tag, "Auth")
    })
  )
})
