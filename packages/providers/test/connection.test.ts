/** The time limit for connecting, with undici's real sockets, opened by the test, and virtual time. */
import { assert, describe, it } from "@effect/vitest"
import { Failover, KeySource } from "@outlast/agent"
import type { FailoverEvent } from "@outlast/agent"
import { Anthropic, OpenAi } from "@outlast/providers"
import { UndiciFetch } from "@outlast/providers/undici"
import { FakeProvider } from "@outlast/testing"
import { ResilienceEvents } from "@outlast/resilience"
import { Deferred, Duration, Effect, Exit, Fiber, Redacted, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import { TestClock } from "effect/testing"
import { execFile } from "node:child_process"
import * as Net from "node:net"
import { promisify } from "node:util"
import * as Undici from "undici"
import * as Support from "./support.ts"

type Connected = (error: Error | null, socket: Net.Socket | null) => void
type Connect = (options: { readonly port: string }, connected: Connected) => void

const agentOf = (connect: Connect): Undici.Agent =>
  // undici calls `connect` with the options and the callback of its own types, which say more.
  new Undici.Agent({ connect: connect as Undici.buildConnector.connector })

/** Each makes a `fetch` whose connections `connect` opens. */
const kinds: Readonly<Record<string, (connect: Connect) => typeof fetch>> = {
  "fetch of Node": (connect) => {
    // The form of a dispatcher that Node's own undici knows. The test at the end has that undici itself.
    const dispatcher = new Undici.Dispatcher1Wrapper(agentOf(connect))
    // Node accepts a dispatcher here; the web's type does not list it.
    return (url, init) => fetch(url, { ...init, ...({ dispatcher } as object) })
  },
  UndiciFetch: (connect) => UndiciFetch.make({ dispatcher: agentOf(connect) })
}

const keys = [KeySource.value("KEY", Redacted.make("sk-test-0123456789"))]
const limits = { connect: Duration.seconds(10) }
const claude = (baseUrl: string, fetched: typeof fetch) =>
  Anthropic.model("claude-sonnet-4-5", { keys, baseUrl, fetch: fetched })

const calls: ReadonlyArray<
  readonly [string, (...request: Parameters<typeof Support.generate>) => Effect.Effect<unknown, unknown>]
> = [
  ["whole", Support.generate],
  [
    "streamed",
    (...request) =>
      Effect.flatMap(Support.collect(...request), ({ failure, parts }) =>
        failure === undefined ? Effect.succeed(parts) : Effect.fail(failure)
      )
  ]
]

describe.for(Object.entries(kinds))("the limit for connecting, %s", ([, kind]) => {
  const fetchBy = (connect: Connect) => {
    const signals: Array<AbortSignal> = []
    const send = kind(connect)
    const fetched: typeof fetch = (url, init) => {
      if (init?.signal) signals.push(init.signal)
      return send(url, init)
    }
    return { fetch: fetched, signals }
  }

  /** A `fetch` whose connections never open. */
  const blackhole = Effect.map(Effect.context<never>(), (context) => {
    const asked = Deferred.makeUnsafe<void>()
    const { fetch, signals } = fetchBy(
      () => void Effect.runForkWith(context)(Deferred.succeed(asked, undefined))
    )
    return { fetch, signals, asked: Deferred.await(asked) }
  })

  for (const [name, call] of calls) {
    it.effect(`${name}: ends an attempt whose connection does not open, and aborts its request`, () =>
      Effect.gen(function* () {
        const { fetch, signals, asked } = yield* blackhole
        const fiber = yield* Effect.forkChild(
          call(claude("http://nowhere.test/v1", fetch), "hello", { limits })
        )
        yield* asked
        yield* TestClock.adjust("9999 millis")
        assert.isUndefined(fiber.pollUnsafe())
        assert.isFalse(signals[0]?.aborted)
        yield* TestClock.adjust("1 millis")
        const failure = yield* Effect.flip(Fiber.join(fiber))
        assert.deepInclude(failure, { _tag: "ProviderFailure" })
        assert.deepInclude((failure as { readonly reason: object }).reason, {
          _tag: "Timeout",
          phase: "connect",
          local: true
        })
        assert.isTrue(signals[0]?.aborted)
      })
    )

    it.effect(`${name}: ends once the connection is open, new or reused`, () =>
      Effect.gen(function* () {
        const context = yield* Effect.context<never>()
        const hits = [Deferred.makeUnsafe<void>(), Deferred.makeUnsafe<void>()]
        const answers: Array<() => void> = []
        const server = yield* Support.serve((response, _, n) => {
          answers.push(() =>
            Support.json(response, { type: "error", error: { type: "api_error", message: "" } }, 500)
          )
          const hit = hits[n]
          if (hit !== undefined) Effect.runForkWith(context)(Deferred.succeed(hit, undefined))
        })
        // The second connection never opens.
        let connections = 0
        const { fetch } = fetchBy(({ port }, connected) => {
          if (++connections > 1) return
          const socket = Net.connect(Number(port), "127.0.0.1", () => connected(null, socket))
        })
        const spec = claude(server.url, fetch)
        for (const [n, hit] of hits.entries()) {
          const fiber = yield* Effect.forkChild(call(spec, "hello", { limits }))
          yield* Deferred.await(hit)
          yield* TestClock.adjust("1 hour")
          assert.isUndefined(fiber.pollUnsafe())
          answers[n]?.()
          const failure = yield* Effect.flip(Fiber.join(fiber))
          assert.deepInclude(failure, { _tag: "ProviderFailure" })
          assert.propertyVal((failure as { readonly reason: object }).reason, "_tag", "ServerError")
        }
        assert.strictEqual(connections, 1)
      })
    )
  }

  it.effect("does not apply to a fetch that does not report its connections", () =>
    Effect.gen(function* () {
      const context = yield* Effect.context<never>()
      const asked = Deferred.makeUnsafe<void>()
      const silent: typeof fetch = () => {
        Effect.runForkWith(context)(Deferred.succeed(asked, undefined))
        return new Promise(() => {})
      }
      const spec = claude("http://nowhere.test/v1", silent)
      const fiber = yield* Effect.forkChild(Support.generate(spec, "hello", { limits }))
      yield* Deferred.await(asked)
      yield* TestClock.adjust("1 hour")
      assert.isUndefined(fiber.pollUnsafe())
      yield* Fiber.interrupt(fiber)
    })
  )

  it.effect("ignores requests of other calls", () =>
    Effect.gen(function* () {
      const { fetch, asked } = yield* blackhole
      const server = yield* FakeProvider.make({ plan: { answers: [{ text: "done" }] } })
      const fiber = yield* Effect.forkChild(
        Support.generate(claude("http://nowhere.test/v1", fetch), "hello", { limits })
      )
      yield* asked
      // This call connects; the other one still does not.
      yield* Support.generate(
        OpenAi.chatModel("gpt-4o", { keys, baseUrl: server.baseUrl("openai") }),
        "hello",
        {
          limits
        }
      )
      yield* TestClock.adjust("10 seconds")
      assert.isTrue(Exit.isFailure(yield* Fiber.await(fiber)))
    })
  )

  it.effect("comes from the policy: the endpoint cools down, and the next one answers", () =>
    Effect.gen(function* () {
      const { fetch, asked } = yield* blackhole
      const server = yield* FakeProvider.make({ plan: { answers: [{ text: "done" }] } })
      const seen: Array<unknown> = []
      const Events = ResilienceEvents.layerHandler((event) =>
        Effect.sync(() => {
          const { _tag, scope, reason, length } = event as FailoverEvent.CooldownOpened // or another event of the chain
          if (_tag === "CooldownOpened") seen.push([scope, reason, length])
        })
      )
      const chain = Failover.layer([
        claude("http://nowhere.test/v1", fetch),
        OpenAi.chatModel("gpt-4o", { keys, baseUrl: server.baseUrl("openai") })
      ])
      const fiber = yield* Effect.forkChild(
        Stream.runCollect(LanguageModel.streamText({ prompt: "hello" })).pipe(
          Effect.provide(chain),
          Effect.provide(Events)
        )
      )
      yield* asked
      yield* TestClock.adjust("10 seconds")
      const parts = yield* Fiber.join(fiber)
      assert.isTrue([...parts].some((part) => part.type === "text-delta"))
      assert.deepStrictEqual(seen, [["endpoint", "Timeout", 30_000]])
    })
  )
})

/** In a process of its own: the package `undici`, once imported, takes the place of Node's own. */
it.effect(
  "receives the request with its limits, its sent headers and its answer from the fetch of Node",
  () =>
    Effect.gen(function* () {
      const server = yield* Support.serve((response) => Support.json(response, {}))
      const program = `
      import { AsyncLocalStorage } from "node:async_hooks"
      import { subscribe } from "node:diagnostics_channel"
      const call = new AsyncLocalStorage()
      const seen = []
      let own
      subscribe("undici:request:create", ({ request }) => { own = request; seen.push(["create", call.getStore(), "headersTimeout" in request, "bodyTimeout" in request]) })
      subscribe("undici:client:sendHeaders", ({ request, socket }) => seen.push(["sent", request === own, typeof socket.bytesRead]))
      subscribe("undici:request:headers", ({ request, response }) => seen.push(["headers", request === own, Array.isArray(response.headers)]))
      await call.run("the call", () => fetch(${JSON.stringify(server.url)}, { method: "POST", body: "{}" }))
      console.log(JSON.stringify(seen))`
      const { stdout } = yield* Effect.promise(() =>
        promisify(execFile)(process.execPath, ["--input-type=module", "--eval", program])
      )
      assert.deepStrictEqual(JSON.parse(stdout), [
        ["create", "the call", true, true],
        ["sent", true, "number"],
        ["headers", true, true]
      ])
    })
)
