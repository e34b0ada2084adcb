/** Verdicts on what proxies, gateways and vendors answer: aborts of others, numeric codes, wrapped errors, secrets. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { KeySource } from "@outlast/agent"
import type { ModelInfo } from "@outlast/agent"
import { OpenAi, OpenAiCompatible } from "@outlast/providers"
import { ProxyAgent, fetch as undiciFetch } from "undici"
import type { Came } from "./Asked.ts"
import { asked, reasonOf, vendors, ways } from "./Asked.ts"
import * as RawServer from "./RawServer.ts"
import * as Replies from "./Replies.ts"

const good = Replies.send.compatible({ text: "Here it is.", end: "stop", tokens: 4 })
const keys = [KeySource.value("KEY", Redacted.make("sk-test-0123456789abcdef"))]
type Info = Pick<ModelInfo.ModelInfo, "wholeAnswers">

/** One question to a server that always answers so, with a good one behind it. */
const answered = (
  status: number,
  body: unknown,
  of: (url: string) => (info: Info) => ReturnType<typeof OpenAiCompatible.model> = vendors.compatible,
  way: (typeof ways)[number] = "request"
): Effect.Effect<Came> =>
  Effect.scoped(
    Effect.gen(function* () {
      const first = yield* RawServer.start((response) => RawServer.json(response, status, body))
      const second = yield* RawServer.start((response, hit) => good(response, hit))
      return yield* asked(way, [of(first.url), vendors.compatible(second.url, "n")])
    })
  )

/** The same without another target: the message that a user reads. */
const alone = (
  status: number,
  body: unknown,
  of: (url: string) => (info: Info) => ReturnType<typeof OpenAiCompatible.model> = vendors.compatible
): Effect.Effect<Came> =>
  Effect.scoped(
    Effect.gen(function* () {
      const server = yield* RawServer.start((response) => RawServer.json(response, status, body))
      return yield* asked("request", [of(server.url)])
    })
  )

describe("an abort that is not the caller's", () => {
  const aborts = {
    "Gemini's CANCELLED": [
      vendors.google,
      499,
      { error: { code: 499, message: "The operation was cancelled.", status: "CANCELLED" } }
    ],
    "a gateway's 499 without a body": [vendors.chat, 499, {}],
    "Go's sentence": [vendors.chat, 500, { error: { message: 'Post "https://upstream": context canceled' } }],
    "an aborted request": [
      vendors.anthropic,
      500,
      { type: "error", error: { type: "api_error", message: "Request aborted" } }
    ],
    "a cancellation by the server": [
      vendors.compatible,
      400,
      { error: { message: "The request was canceled by the scheduler.", code: "CANCELLED" } }
    ]
  } as const
  for (const [what, [of, status, body]] of Object.entries(aborts)) {
    for (const way of ways) {
      it.live(`goes to the next target: ${what}, ${way}`, () =>
        Effect.gen(function* () {
          const came = yield* answered(status, body, of, way)
          assert.strictEqual(came.text, "Here it is.")
          assert.notInclude(came.failures, "Cancelled")
          assert.isNotEmpty(came.failures)
        })
      )
    }
  }

  const limits = {
    "an AbortController": () => {
      const own = new AbortController()
      const fire = () => own.abort()
      return { signal: own.signal, fire }
    },
    "a controller with a TimeoutError": () => {
      const own = new AbortController()
      return { signal: own.signal, fire: () => own.abort(new DOMException("too slow", "TimeoutError")) }
    },
    "a controller with an error of its own": () => {
      const own = new AbortController()
      return { signal: own.signal, fire: () => own.abort(new Error("our limit passed")) }
    }
  }
  for (const [what, make] of Object.entries(limits)) {
    it.live(`goes to the next target when the user's fetch aborts by ${what}`, () =>
      Effect.gen(function* () {
        let fire = () => {}
        const silent = yield* RawServer.start(() => fire())
        const second = yield* RawServer.start((response, hit) => good(response, hit))
        const limited: typeof fetch = (input, init) => {
          const own = make()
          fire = own.fire
          const signals = init?.signal ? [init.signal, own.signal] : [own.signal]
          return fetch(input, { ...init, signal: AbortSignal.any(signals) })
        }
        const first = (info: Info) =>
          OpenAi.chatModel("gpt-x", { keys, info, baseUrl: `${silent.url}/v1`, fetch: limited })
        const came = yield* asked("request", [first, vendors.compatible(second.url, "n")])
        assert.strictEqual(came.text, "Here it is.")
        assert.notInclude(came.failures, "Cancelled")
      }).pipe(Effect.scoped)
    )
  }
})

describe("a proxy that refuses to connect", () => {
  for (const [status, reason] of [
    [407, "PermanentNetwork"],
    [403, "PermanentNetwork"],
    [502, "Network"]
  ] as const) {
    it.live(`with ${status} is a ${reason} failure and does not blame the key`, () =>
      Effect.gen(function* () {
        const proxy = yield* RawServer.start(() => {})
        const { createServer } = yield* Effect.promise(() => import("node:net"))
        const raw = yield* Effect.acquireRelease(
          Effect.callback<{ readonly port: number; readonly close: () => void }>((resume) => {
            const server = createServer((socket) => {
              socket.on("error", () => {})
              socket.once("data", () => socket.end(`HTTP/1.1 ${status} No\r\ncontent-length: 0\r\n\r\n`))
            })
            server.listen(0, "127.0.0.1", () => {
              const address = server.address()
              const port = typeof address === "object" && address !== null ? address.port : 0
              resume(Effect.succeed({ port, close: () => server.close() }))
            })
          }),
          ({ close }) => Effect.sync(close)
        )
        const agent = new ProxyAgent({ uri: `http://127.0.0.1:${raw.port}`, proxyTunnel: true })
        // undici's own types differ from those of the global fetch.
        const proxied = ((input: string, init: object) =>
          undiciFetch(input, { ...init, dispatcher: agent })) as never
        const target = (info: Info) =>
          OpenAi.chatModel("gpt-x", { keys, info, baseUrl: `${proxy.url}/v1`, fetch: proxied })
        const came = yield* asked("request", [target])
        assert.strictEqual(reasonOf(came), reason, String(came.failure?.message))
        assert.match(String(came.failure?.message), /proxy/)
        assert.notMatch(String(came.failure?.message), /valid key|API key/)
        yield* Effect.promise(() => agent.close())
      }).pipe(Effect.scoped)
    )
  }
})

describe("a numeric code of a vendor", () => {
  const at =
    (name: string, model = "m") =>
    (url: string) =>
    (info: Info) =>
      OpenAiCompatible.model({ name, model, keys, info, baseUrl: `${url}/v1` })
  const codes: ReadonlyArray<readonly [of: ReturnType<typeof at>, body: unknown, reason: string]> = [
    [at("zai"), { error: { code: "1305", message: "拥挤" } }, "Overloaded"],
    [at("mine", "glm-4.6"), { error: { code: "1302", message: "x" } }, "RateLimit"],
    [at("zhipu"), { code: 1113, msg: "x" }, "Billing"],
    [at("zhipu"), { code: "1305", msg: "x" }, "Overloaded"],
    [at("minimax"), { type: "error", error: { type: "api_error", message: "集群 (2064)" } }, "Overloaded"],
    [at("any"), { base_resp: { status_code: 1002, status_msg: "x" } }, "RateLimit"],
    [at("any"), { base_resp: { status_code: "1008", status_msg: "x" } }, "Billing"],
    [at("any"), { error_code: 336_501, error_msg: "x" }, "RateLimit"],
    [at("spark"), { code: 10_110, message: "忙", sid: "cha000" }, "Overloaded"],
    [at("spark"), { header: { code: 10_907, message: "x", sid: "cha000" } }, "ContextOverflow"],
    // The same numbers mean nothing elsewhere.
    [at("proxy"), { error: { code: "1305", message: "x" } }, "Format"],
    [at("mine", "gpt-5.3-codex-spark"), { error: { code: "10110", message: "x" } }, "Format"]
  ]
  for (const [of, body, reason] of codes) {
    it.live(`${reason} <- ${JSON.stringify(body)}`, () =>
      Effect.map(answered(200, body, of), ({ failures }) => assert.strictEqual(failures[0], reason))
    )
  }
})

describe("the message of a wrapped error is that of the error inside", () => {
  const message = "Tool call id must have a length of 9."
  const wrapped: Record<string, unknown> = {
    "OpenRouter's raw body": {
      error: {
        message: "Provider returned error",
        code: 400,
        metadata: { raw: JSON.stringify({ object: "error", message }) }
      }
    },
    "OpenRouter's raw sentence": {
      error: { message: "Provider returned error", code: 400, metadata: { raw: message } }
    },
    "LiteLLM's class and body": {
      error: {
        message: `litellm.BadRequestError: MistralException - {"object":"error","message":"${message}"}. Received Model Group=m`
      }
    },
    "LiteLLM's class and dictionary": {
      error: {
        message: `litellm.BadRequestError: MistralException - Error code: 400 - {'object': 'error', 'message': '${message}'}`
      }
    },
    "a body in a sentence": { error: { message: `Upstream failed: 400 {"error":{"message":"${message}"}}` } },
    "an inner error": { error: { message: "Request failed.", innererror: { message } } },
    "a body inside a body": { message: "Bad request", body: JSON.stringify({ error: { message } }) }
  }
  for (const [what, body] of Object.entries(wrapped)) {
    it.live(what, () =>
      Effect.map(alone(400, body), ({ failure }) => {
        assert.include(String(failure?.message), `"${message}"`)
        assert.notMatch(String(failure?.message), /Provider returned error|litellm|Request failed/)
      })
    )
  }

  it.live("also where every target is out", () =>
    Effect.map(
      alone(429, {
        error: {
          message: "Provider returned error",
          code: 429,
          metadata: { raw: "The shared pool is rate-limited upstream." }
        }
      }),
      ({ failure }) => {
        assert.strictEqual(failure?._tag, "AllTargetsOut")
        assert.include(String(failure?.message), "The shared pool is rate-limited upstream.")
      }
    )
  )
})

describe("what only a person can mend", () => {
  it.live("a fair usage restriction is Billing, and the message says so", () =>
    Effect.map(
      alone(429, {
        error: {
          code: "1313",
          message:
            "Your usage does not comply with the Fair Usage Policy, and your request frequency has been limited."
        }
      }),
      (came) => {
        assert.strictEqual(reasonOf(came), "Billing")
        assert.match(String(came.failure?.message), /lift the restriction/)
      }
    )
  )

  for (const said of [
    "Secret not found",
    "model m: secret 'openai' does not exist",
    "OPENAI_API_KEY is not set"
  ]) {
    it.live(`a secret that the server lacks is no missing model: ${said}`, () =>
      Effect.map(alone(404, { error: { message: said } }), (came) => {
        assert.strictEqual(reasonOf(came), "Auth")
        assert.match(String(came.failure?.message), /Set the secret at the server/)
      })
    )
  }

  it.live("a model that does not exist is still missing", () =>
    Effect.map(alone(404, { error: { message: "The model m does not exist" } }), (came) =>
      assert.strictEqual(reasonOf(came), "ModelNotFound")
    )
  )
})
