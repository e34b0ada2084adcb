import { assert, describe, it } from "@effect/vitest"
import { request as httpRequest } from "node:http"
import { Effect, Fiber, Stream } from "effect"
import { TestClock } from "effect/testing"
import { FakeProvider } from "@outlast/testing"
import type { FaultPlan } from "@outlast/testing"
import { pieces } from "#testing/server/Connection"
import type { Api } from "./http.ts"
import { apis, events, hello, open, post, readAll, textIn } from "./http.ts"

const answers = [{ text: "one two three four" }]
const serving = (faults: ReadonlyArray<FaultPlan.Fault>, options: Partial<FakeProvider.Options> = {}) =>
  FakeProvider.make({ plan: { faults: faults.map((fault) => ({ fault })), answers }, ...options })

/** Returns the texts of a stream. */
const texts = (text: string): ReadonlyArray<string> =>
  events(text)
    .map(textIn)
    .filter((delta) => delta !== "")

const streamed = (server: FakeProvider.FakeProvider, api: Api) =>
  Effect.promise(async () => readAll(await open(server, api, { ...hello[api], stream: true })))

/** Text that appears only in a complete stream. */
const ends: Record<Api, string> = {
  anthropic: "event: message_stop",
  openai: "data: [DONE]",
  responses: "event: response.completed",
  google: `"finishReason":"STOP"`
}

const keepAlives: Record<Api, string> = {
  anthropic: "event: ping",
  openai: ": keep-alive",
  responses: "event: keepalive",
  google: ": keep-alive"
}

const overloads: Record<Api, object> = {
  anthropic: { type: "overloaded_error", message: "Overloaded" },
  openai: { type: "overloaded_error", message: "Overloaded" },
  responses: { code: "slow_down", message: "Overloaded" },
  google: { code: 503, status: "UNAVAILABLE", message: "Overloaded" }
}

const openaiHeaders = ["x-request-id", "openai-organization", "x-ratelimit-reset-tokens"]
const responseHeaders: Record<Api, ReadonlyArray<string>> = {
  anthropic: ["request-id", "anthropic-ratelimit-tokens-reset"],
  openai: openaiHeaders,
  responses: openaiHeaders,
  google: ["x-gemini-service-tier"]
}

/** Advances the virtual clock for as long as the effect runs. */
const whileTimePasses = <A>(effect: Effect.Effect<A>) =>
  Effect.raceFirst(
    effect,
    Effect.forever(
      Effect.andThen(
        TestClock.adjust(1_000),
        Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
      )
    )
  )

for (const provider of apis) {
  describe(`${provider} streams`, () => {
    it.live("consist of deltas and an end", () =>
      Effect.gen(function* () {
        const server = yield* serving([])
        const { text, broken } = yield* streamed(server, provider)
        assert.isFalse(broken)
        assert.deepStrictEqual(texts(text), ["one", " two", " three", " four"])
        assert.include(text, ends[provider])
      }).pipe(Effect.scoped)
    )
    it.live("can be cut without an error", () =>
      Effect.gen(function* () {
        const server = yield* serving([{ type: "cut", after: 2 }])
        const { text, broken } = yield* streamed(server, provider)
        assert.isFalse(broken)
        assert.deepStrictEqual(texts(text), ["one", " two"])
        assert.notInclude(text, ends[provider])
        assert.notInclude(text, "message_delta")
      }).pipe(Effect.scoped)
    )
    it.live("can be reset after the sent deltas have arrived", () =>
      Effect.gen(function* () {
        const server = yield* serving([{ type: "reset", after: 2 }])
        const { text, broken } = yield* streamed(server, provider)
        assert.isTrue(broken)
        assert.deepStrictEqual(texts(text), ["one", " two"])
      }).pipe(Effect.scoped)
    )
    it.live("can contain an error", () =>
      Effect.gen(function* () {
        const error = { type: "overloaded_error", message: "Overloaded" }
        const server = yield* serving([{ type: "stream-error", after: 1, error }])
        const { text, broken } = yield* streamed(server, provider)
        assert.isFalse(broken)
        assert.deepStrictEqual(texts(text), ["one"])
        const last = events(text).at(-1)
        assert.deepInclude(last.error ?? last.response.error, overloads[provider])
      }).pipe(Effect.scoped)
    )
    it.effect("can be slow in the time of the Clock", () =>
      Effect.gen(function* () {
        const server = yield* serving([{ type: "slow", delay: 3_600_000 }])
        const { text } = yield* whileTimePasses(streamed(server, provider))
        assert.deepStrictEqual(texts(text), ["one", " two", " three", " four"])
      }).pipe(Effect.scoped)
    )
    it.effect("can stall with keep-alives", () =>
      Effect.gen(function* () {
        const server = yield* serving([{ type: "stall", after: 1, keepAlive: 60_000 }])
        const heard = yield* whileTimePasses(
          Effect.promise(async () => {
            const abort = new AbortController()
            const body = { ...hello[provider], stream: true }
            const response = await open(server, provider, body, {}, abort.signal)
            let text = ""
            for await (const chunk of response.body!) {
              text += Buffer.from(chunk).toString("latin1")
              if (text.split(keepAlives[provider]).length > 4) break
            }
            return text
          })
        )
        assert.deepStrictEqual(texts(heard), ["one"])
      }).pipe(Effect.scoped)
    )
  })

  describe(`${provider} answers`, () => {
    it.live("have an error's status, its headers and the provider's own body", () =>
      Effect.gen(function* () {
        const server = yield* serving([
          { type: "status", status: 429, headers: { "Retry-After": "7" } },
          { type: "status", status: 502 },
          { type: "status", status: 500, body: { mine: true } },
          { type: "status", status: 500, body: "<html>no</html>" }
        ])
        const ask = post(server, provider, hello[provider])
        const limited = yield* ask
        assert.strictEqual(limited.status, 429)
        assert.strictEqual(limited.headers.get("retry-after"), "7")
        assert.isString(limited.body.error.message)
        for (const name of responseHeaders[provider]) assert.isNotNull(limited.headers.get(name))
        const page = yield* ask
        assert.deepStrictEqual([page.status, page.headers.get("content-type")], [502, "text/html"])
        assert.deepStrictEqual((yield* ask).body, { mine: true })
        assert.strictEqual((yield* ask).text, "<html>no</html>")
      }).pipe(Effect.scoped)
    )
    it.live("have a header of the plan in place of the provider's own", () =>
      Effect.gen(function* () {
        const [name = ""] = responseHeaders[provider]
        const server = yield* serving([{ type: "status", status: 500, headers: { [name]: "mine" } }])
        assert.strictEqual((yield* post(server, provider, hello[provider])).headers.get(name), "mine")
      }).pipe(Effect.scoped)
    )
    it.live("can be reset before their headers, or in the middle", () =>
      Effect.gen(function* () {
        const server = yield* serving([
          { type: "reset" },
          { type: "reset", after: 1 },
          { type: "cut", after: 1 }
        ])
        const ask = () => open(server, provider, hello[provider])
        assert.isTrue(
          yield* Effect.promise(() =>
            ask().then(
              () => false,
              () => true
            )
          )
        )
        for (let i = 0; i < 2; i++) {
          const response = yield* Effect.promise(ask)
          assert.strictEqual(response.status, 200)
          const { broken, text } = yield* Effect.promise(() => readAll(response))
          assert.isTrue(broken)
          assert.isAbove(text.length, 0)
        }
      }).pipe(Effect.scoped)
    )
    it.effect("take the time of all their deltas when slow", () =>
      Effect.gen(function* () {
        const server = yield* serving([{ type: "slow", delay: 3_600_000 }])
        const answered = yield* Effect.forkChild(post(server, provider, hello[provider]))
        yield* server.arrivals.pipe(Stream.take(1), Stream.runDrain)
        yield* TestClock.adjust(4 * 3_600_000 - 1)
        assert.isUndefined(answered.pollUnsafe())
        yield* TestClock.adjust(1)
        assert.strictEqual((yield* Fiber.join(answered)).status, 200)
      }).pipe(Effect.scoped)
    )
    it.live("can be garbage", () =>
      Effect.gen(function* () {
        const server = yield* serving([{ type: "garbage", body: "<html>Log in</html>" }])
        const { status, text } = yield* post(server, provider, hello[provider])
        assert.deepStrictEqual([status, text], [200, "<html>Log in</html>"])
      }).pipe(Effect.scoped)
    )
    it.live("report that the plan has no answer", () =>
      Effect.gen(function* () {
        const server = yield* FakeProvider.make({ plan: { answers: [] } })
        const { status, body } = yield* post(server, provider, hello[provider])
        assert.strictEqual(status, 400)
        assert.match(body.error.message, /it has 0 answers, and request 1 asks for answer 1\./)
        assert.deepStrictEqual((yield* server.requests)[0]?.outcome, { type: "no-answer", turn: 0 })
      }).pipe(Effect.scoped)
    )
  })
}

describe("the server", () => {
  it.effect("records requests without secrets", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(5_000)
      const server = yield* serving([{ type: "status", status: 529 }])
      yield* post(server, "anthropic", hello.anthropic, { "x-api-key": "sk-very-secret" })
      yield* post(
        server,
        "openai",
        { ...hello.openai, messages: [] },
        { authorization: "Bearer sk-also-secret" }
      )
      const requests = yield* server.requests
      assert.deepStrictEqual(
        requests.map((request) => ({ ...request, headers: {} })),
        [
          {
            index: 0,
            provider: "anthropic",
            path: "/anthropic/v1/messages",
            model: "claude-sonnet-4-5",
            key: "…cret",
            streaming: false,
            time: 5_000,
            headers: {},
            body: hello.anthropic as any,
            outcome: { type: "fault", turn: 0, fault: { type: "status", status: 529 } },
            closedByClient: false
          },
          {
            index: 1,
            provider: "openai",
            path: "/openai/v1/chat/completions",
            model: "gpt-4.1",
            key: "…cret",
            streaming: false,
            time: 5_000,
            headers: {},
            body: { ...hello.openai, messages: [] } as any,
            outcome: {
              type: "refused",
              rule: "messages-empty",
              status: 400,
              message: requests[1]?.outcome.type === "refused" ? requests[1].outcome.message : ""
            },
            closedByClient: false
          }
        ]
      )
      assert.strictEqual(requests[0]?.headers["content-type"], "application/json")
      assert.notInclude(JSON.stringify(requests), "secret")
    }).pipe(Effect.scoped)
  )

  it.live("replays arrivals from the first one", () =>
    Effect.gen(function* () {
      const server = yield* serving([{ type: "status", status: 529 }])
      yield* post(server, "anthropic", hello.anthropic)
      const listening = yield* server.arrivals.pipe(Stream.take(2), Stream.runCollect, Effect.forkChild)
      yield* post(server, "openai", hello.openai)
      const arrived = yield* Fiber.join(listening)
      assert.deepStrictEqual(
        arrived.map(({ provider, outcome }) => [provider, outcome.type]),
        [
          ["anthropic", "fault"],
          ["openai", "answer"]
        ]
      )
    }).pipe(Effect.scoped)
  )

  it.live("notices a client that disconnects", () =>
    Effect.gen(function* () {
      const server = yield* serving([{ type: "stall" }, { type: "stall", after: 1 }])
      const abort = new AbortController()
      const leave = (streaming: boolean) => {
        const asked = open(server, "anthropic", { ...hello.anthropic, stream: streaming }, {}, abort.signal)
        return asked.then(readAll, () => undefined)
      }
      const clients = [leave(false), leave(true)]
      yield* server.arrivals.pipe(Stream.take(2), Stream.runDrain)
      abort.abort()
      yield* Effect.promise(() => Promise.all(clients))
      const left = Effect.map(server.requests, (all) => all.every(({ closedByClient }) => closedByClient))
      yield* Effect.repeat(
        Effect.tap(left, () => Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))),
        { until: (all) => all }
      )
      assert.isTrue(yield* left)
    }).pipe(Effect.scoped)
  )

  it.live("stops when killed, without reporting clients as disconnected", () =>
    Effect.gen(function* () {
      const server = yield* serving([{ type: "stall", after: 1 }])
      const reading = yield* Effect.forkChild(streamed(server, "openai"))
      yield* server.arrivals.pipe(Stream.take(1), Stream.runDrain)
      yield* server.kill
      yield* server.kill
      const left = yield* Effect.promise(() =>
        open(server, "openai", hello.openai).then(
          () => "answered",
          () => "refused"
        )
      )
      assert.strictEqual(left, "refused")
      yield* Fiber.interrupt(reading)
      assert.deepStrictEqual(
        (yield* server.requests).map(({ closedByClient }) => closedByClient),
        [false]
      )
    }).pipe(Effect.scoped)
  )

  it.live("stops with its scope, including stalled answers", () =>
    Effect.gen(function* () {
      const url = yield* Effect.scoped(
        Effect.gen(function* () {
          const server = yield* serving([{ type: "stall", keepAlive: 1 }])
          yield* Effect.forkDetach(streamed(server, "anthropic"))
          yield* server.arrivals.pipe(Stream.take(1), Stream.runDrain)
          return server.url
        })
      )
      const left = yield* Effect.promise(() =>
        fetch(url).then(
          () => "answered",
          () => "refused"
        )
      )
      assert.strictEqual(left, "refused")
    })
  )

  it.live("lists its paths in the answer to an unknown request", () =>
    Effect.gen(function* () {
      const server = yield* serving([])
      const response = yield* Effect.promise(() => fetch(`${server.url}/v1/messages`, { method: "POST" }))
      assert.strictEqual(response.status, 404)
      const text = yield* Effect.promise(() => response.text())
      for (const path of [
        "/anthropic/v1/messages",
        "/openai/v1/responses",
        ":streamGenerateContent?alt=sse"
      ]) {
        assert.include(text, path)
      }
      const [request] = yield* server.requests
      assert.deepInclude(request?.outcome, { type: "refused", rule: "path", status: 404 })
      assert.strictEqual(request?.path, "/v1/messages")
    }).pipe(Effect.scoped)
  )

  it.live("survives an invalid path", () =>
    Effect.gen(function* () {
      const server = yield* serving([])
      const ask = (path: string) =>
        Effect.callback<number | undefined>((resume) => {
          const request = httpRequest(server.url, { path, method: "POST" }, (response) => {
            response.resume()
            resume(Effect.succeed(response.statusCode))
          })
          request.on("error", (error) => resume(Effect.die(error)))
          request.end()
        })
      assert.strictEqual(yield* ask("//"), 404)
      assert.strictEqual(yield* ask("//anthropic/v1/messages?x=//"), 404)
      assert.strictEqual((yield* server.requests)[0]?.path, "//")
    }).pipe(Effect.scoped)
  )

  const broken: Record<string, FaultPlan.FaultPlan> = {
    "a function that throws": {
      answers: () => {
        throw new Error("my own mistake")
      }
    },
    "a header that is none": {
      faults: [{ fault: { type: "status", status: 500, headers: { "my own mistake": "a" } } }],
      answers
    }
  }
  for (const [what, plan] of Object.entries(broken)) {
    it.live(`answers with an error when its plan has ${what}`, () =>
      Effect.gen(function* () {
        const server = yield* FakeProvider.make({ plan })
        const { status, body } = yield* post(server, "anthropic", hello.anthropic)
        assert.strictEqual(status, 500)
        assert.match(body.error.message, /cannot answer as planned: .*my own mistake/)
        const [request] = yield* server.requests
        assert.deepInclude(request?.outcome, { type: "refused", rule: "plan" })
      }).pipe(Effect.scoped)
    )
  }

  it.live("splits its bytes inside characters", () =>
    Effect.gen(function* () {
      const server = yield* FakeProvider.make({ plan: { answers: [{ text: "größer 🚀 über äöü" }] } })
      const { chunks, text } = yield* streamed(server, "anthropic")
      assert.strictEqual(texts(text).join(""), "größer 🚀 über äöü")
      const continuing = chunks.filter((chunk) => ((chunk[0] ?? 0) & 0xc0) === 0x80)
      assert.isAbove(continuing.length, 0)
    }).pipe(Effect.scoped)
  )

  it("loses no bytes when splitting", () => {
    for (const text of ["", "a", "ä", "data: größer 🚀\n\n"]) {
      for (let turn = 0; turn < 20; turn++) {
        const bytes = Buffer.from(text)
        assert.strictEqual(Buffer.concat(pieces(bytes, turn)).toString(), text)
      }
    }
  })
})
