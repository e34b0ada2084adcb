/** Promises of CodeBuddy that no other test shows. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Option, Schema, Stream } from "effect"
import { LanguageModel, Prompt, Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import {
  Agent,
  Compaction,
  CompactionPolicy,
  Failover,
  FailoverReason,
  Limits,
  Outlast,
  Presets,
  RecoveryPolicy,
  SafetyGuard
} from "@outlast/agent"
import { Retry } from "@outlast/resilience"
import { ScriptedModel } from "@outlast/testing"
import {
  always,
  ask,
  classified,
  failed,
  inTime,
  logged,
  model,
  recorded,
  reset,
  status,
  timed,
  timesOf
} from "./support.ts"

const { policy } = Presets.codebuddy
const exact = RecoveryPolicy.withoutJitter(policy)

describe("each layer", () => {
  it.effect("000-intro-independent: works without the other three", () =>
    Effect.gen(function* () {
      // Layer 1.
      const [first, second] = [yield* model("a", "m1", [always(status(401))]), yield* model("b", "m2")]
      const answer = yield* Effect.provide(ask, Failover.layer([first, second]))
      assert.strictEqual(answer.text, "hello")
      // Layer 2.
      let attempts = 0
      const flaky = Effect.suspend(() => (++attempts < 3 ? Effect.fail("timeout") : Effect.succeed("done")))
      const retried = Retry.with({ classify: () => Retry.again() })(flaky)
      assert.strictEqual(yield* inTime(retried), "done")
      // Layer 3.
      const endless = SafetyGuard.run({ time: { total: "1 second" } })(Effect.never)
      const stop = yield* inTime(Effect.flip(endless))
      assert.strictEqual(stop.reason, "timeout")
      // Layer 4.
      const compaction = yield* Compaction.make({ policy: CompactionPolicy.codebuddy })
      const talk = Prompt.make(
        Array.from({ length: 8 }, () => ({ role: "user" as const, content: "x".repeat(4_000) }))
      )
      const { prompt } = yield* compaction.fit(talk, { window: 8_000 })
      assert.isBelow(prompt.content.length, 8)
    }).pipe(Effect.scoped)
  )
})

/** A provider whose streams break with an error of this text. */
const broken = (message: string, type = "error") =>
  model("a", "m1", [always({ type: "stream-error", after: 0, error: { type, message } })])

const streamed = Stream.runDrain(LanguageModel.streamText({ prompt: "What is the plan?" }))

describe("layer 1 reads", () => {
  const texts: ReadonlyArray<readonly [string, string, string]> = [
    ["000-L1-auth-invalid-key", "invalid API key", "auth"],
    ["000-L1-auth-unauthorized", "unauthorized", "auth"],
    ["000-L1-rate-quota", "quota exceeded", "rate_limit"],
    ["000-L1-rate-text", "rate limit", "rate_limit"],
    ["000-L1-billing-text", "billing", "billing"],
    ["000-L1-timeout-etimedout", "connect ETIMEDOUT 1.2.3.4:443", "timeout"],
    ["000-L1-timeout-network", "network timeout", "timeout"],
    ["000-L1-overloaded-text", "overloaded", "overloaded"],
    ["000-L1-overloaded-capacity", "capacity", "overloaded"],
    ["000-L1-notfound-text", "model doesn't exist", "model_not_found"],
    ["000-L1-unknown-any", "the dog ate it", "unknown"]
  ]
  for (const [id, text, reason] of texts) {
    it.effect(`${id}: "${text}" as ${reason}`, () =>
      Effect.gen(function* () {
        const chain = [yield* broken(text), yield* model("b", "m2")] as const
        const [health] = yield* inTime(streamed).pipe(
          Effect.andThen(Presets.codebuddy.health),
          Effect.provide(Presets.codebuddy.layer(chain))
        )
        assert.strictEqual(health?.lastErrorReason, reason)
      })
    )
  }

  it("000-L1-rate-quota: and quota exceeded has the cooldown of a rate limit", () => {
    const row = policy.rows[policy.classOf(classified("quota exceeded"))]
    assert.deepStrictEqual(row.cooldown, policy.rows.rate_limit.cooldown)
  })
})

describe("layer 2, for an error in a stream", () => {
  /** When the provider was asked, in milliseconds, if its stream breaks with an error of this text. */
  const askedAt = (message: string, type?: string) =>
    Effect.gen(function* () {
      const chain = [yield* broken(message, type), yield* model("b", "m2")] as const
      yield* inTime(Effect.provide(streamed, Presets.codebuddy.layer(chain)))
      assert.lengthOf(yield* timesOf(chain[1]), 1)
      return yield* timesOf(chain[0])
    })
  const transient: ReadonlyArray<readonly [string, string]> = [
    ["000-L2-t-timeout", "timeout"],
    ["000-L2-t-econnreset", "ECONNRESET"],
    ["000-L2-t-econnrefused", "ECONNREFUSED"],
    ["000-L2-t-enotfound", "ENOTFOUND"],
    ["000-L2-t-ratelimit", "rate limit"],
    ["000-L2-t-429", "429"],
    ["000-L2-t-502", "502"],
    ["000-L2-t-503", "503"],
    ["000-L2-t-internal", "internal server error"],
    ["000-L2-t-overloaded", "overloaded"],
    ["000-L2-t-hangup", "socket hang up"]
  ]
  it.effect("000-L2-t-overloaded: an error with the type of an overload is retried", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* askedAt("Please wait.", "overloaded_error"), [0, 1_500, 4_500])
    })
  )
  for (const [id, text] of transient) {
    it.effect(`${id}: "${text}" is retried after 1.5 and 3 s`, () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* askedAt(text), [0, 1_500, 4_500])
      })
    )
  }

  const permanent: ReadonlyArray<readonly [string, string]> = [
    ["000-L2-p-loop", "loop detected"],
    ["000-L2-p-infinite", "infinite loop"],
    ["000-L2-p-samefile", "same file edited"],
    ["000-L2-p-safety", "safety limit"],
    ["000-L2-p-cancel", "user cancel"],
    ["000-L2-p-abort", "abort"],
    ["000-L2-p-authn", "authentication"],
    ["000-L2-p-unauthorized", "unauthorized"],
    ["000-L2-p-key", "invalid api key"],
    ["000-L2-p-quota", "quota exceeded"]
  ]
  // The words of a guard decide, whatever the type of the error says.
  for (const [id, text] of permanent.slice(0, 4)) {
    it.effect(`${id}: "${text}" is not retried, although the error has the type of an overload`, () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* askedAt(text, "overloaded_error"), [0])
      })
    )
  }
  for (const [id, text] of permanent) {
    it.effect(`${id}: "${text}" is not retried`, () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* askedAt(text), [0])
      })
    )
  }

  it.effect("000-L2-guard-override: what the guard stopped is not retried, whatever its text says", () =>
    Effect.gen(function* () {
      let runs = 0
      const program = Effect.andThen(
        Effect.sync(() => runs++),
        Effect.never
      )
      const stopped = SafetyGuard.run({
        time: { total: "1 second" },
        texts: { stopped: () => "timeout 503" }
      })(program)
      const stop = yield* inTime(Effect.flip(Retry.with()(stopped)))
      assert.strictEqual(stop._tag, "RetryFailed")
      assert.strictEqual(runs, 1)
    })
  )
})

describe("the health of a provider", () => {
  it.effect(
    "000-L1-health-provider, 000-L1-health-status, 000-L1-health-errorCount, 000-L1-health-lastError, 000-L1-health-lastErrorReason, 000-L1-health-lastSuccessAt, 000-L1-health-cooldownUntil: has the fields and words of the document",
    () =>
      Effect.gen(function* () {
        const faults = [{ skip: 1, times: 4, fault: status(429) }]
        const chain = [yield* model("anthropic", "m1", faults), yield* model("openai", "m2")] as const
        const seen = yield* inTime(
          Effect.gen(function* () {
            const first = yield* Presets.codebuddy.health
            yield* ask
            yield* ask
            const cooling = yield* Presets.codebuddy.health
            yield* Effect.sleep("2 minutes")
            yield* ask
            return { first, cooling, failed: yield* Presets.codebuddy.health }
          }).pipe(Effect.provide(Presets.codebuddy.layer(chain, { policy: exact })))
        )
        assert.deepStrictEqual(seen.first[0], {
          provider: "anthropic",
          status: "healthy",
          errorCount: 0,
          cooldownUntil: 0
        })
        assert.deepStrictEqual(seen.cooling[0], {
          provider: "anthropic",
          status: "down",
          errorCount: 3,
          lastError: seen.cooling[0]?.lastError ?? "",
          lastErrorReason: "rate_limit",
          lastSuccessAt: 0,
          cooldownUntil: 64_500
        })
        assert.include(seen.cooling[0]?.lastError, "rate limited")
        assert.deepInclude(seen.cooling[1], { status: "healthy", lastSuccessAt: 4_500 })
        assert.deepInclude(seen.failed[0], { status: "healthy", errorCount: 0, cooldownUntil: 0 })
      })
  )

  it.effect("000-L1-health-status: is degraded after one failure, and healthy after a success", () =>
    Effect.gen(function* () {
      const target = yield* model("anthropic", "m1", [{ times: 3, fault: reset }])
      const states = yield* inTime(
        Effect.gen(function* () {
          yield* Effect.forkChild(Effect.exit(ask))
          yield* Effect.sleep("1 second")
          const one = yield* Presets.codebuddy.health
          yield* Effect.sleep("1 minute")
          yield* ask
          return [one, yield* Presets.codebuddy.health].map(([health]) => health?.status)
        }).pipe(Effect.provide(Presets.codebuddy.layer([target], { policy: exact })))
      )
      assert.deepStrictEqual(states, ["degraded", "healthy"])
    })
  )
})

describe("the chain", () => {
  it.effect("000-L1-chain-config: asks the providers in the order in which the user lists them", () =>
    Effect.gen(function* () {
      const names = ["anthropic", "openai", "google"]
      const [a, b, c] = yield* Effect.forEach(names, (name) =>
        model(name, `of-${name}`, [always(status(401))])
      )
      assert.isTrue(a !== undefined && b !== undefined && c !== undefined)
      if (a === undefined || b === undefined || c === undefined) return
      const { layer, of } = recorded()
      yield* Effect.exit(ask).pipe(Effect.provide(Presets.codebuddy.layer([a, b, c])), Effect.provide(layer))
      assert.deepStrictEqual(
        of("AttemptStarted")
          .map(({ target }) => target.provider)
          .slice(0, 3),
        names
      )
    })
  )

  it.effect("000-L1-chain-seamless: gives the same answer type, and sends the user's turn once", () =>
    Effect.gen(function* () {
      const chain = [yield* model("a", "m1", [always(status(401))]), yield* model("b", "m2")] as const
      const response = yield* Effect.provide(ask, Presets.codebuddy.layer(chain))
      assert.strictEqual(response.text, "hello")
      assert.strictEqual(Option.getOrThrow(Outlast.answeredBy(response.content)).target, "b/m2")
      const [sent] = yield* chain[1].requests
      const users = sent?.prompt.content.filter(({ role }) => role === "user") ?? []
      assert.lengthOf(JSON.stringify(users).match(/What is the plan\?/g) ?? [], 1)
    })
  )
})

// -----------------------------------------------------------------------------
// Layer 3
// -----------------------------------------------------------------------------

const text = Schema.String
const Kit = Toolkit.make(
  Tool.make("edit_file", { parameters: Schema.Struct({ path: text, text }), success: text }),
  Tool.make("delete_file", { parameters: Schema.Struct({ path: text }), success: text }),
  Tool.make("run_command", { parameters: Schema.Struct({ command: text }), success: text }),
  Tool.make("run_terminal_command", { parameters: Schema.Struct({ command: text }), success: text }),
  Tool.make("web_search", { parameters: Schema.Struct({ query: text }), success: text })
)
const handlers = Kit.toLayer({
  edit_file: ({ text }) => Effect.succeed(`wrote ${text}`),
  delete_file: ({ path }) => Effect.succeed(`deleted ${path}`),
  run_command: ({ command }) => Effect.succeed(`ran ${command}`),
  run_terminal_command: ({ command }) => Effect.succeed(`ran ${command}`),
  web_search: ({ query }) => Effect.succeed(`found ${query}`)
})

/** Words that differ from turn to turn, so that no loop is seen. */
const word = (turn: number): string => [...`${turn}`].map((n) => "abcdefghij"[+n]).join(" ")

/** Runs an agent that calls a tool in every turn, and returns its stop. */
const stopOf = (
  tool: string,
  params: (turn: number) => Record<string, string>,
  options: SafetyGuard.Options = {},
  calls = 1
) =>
  Effect.gen(function* () {
    const target = yield* ScriptedModel.make({
      provider: "anthropic",
      model: "m",
      plan: {
        answers: ({ turn }) => ({
          toolCalls: Array.from({ length: calls }, (_, n) => ({
            name: tool,
            params: params(turn * calls + n)
          }))
        })
      }
    })
    const run = Presets.codebuddy.agent({ prompt: "x", toolkit: Kit })
    const own = SafetyGuard.run({ ...Presets.codebuddy.limits, texts: Presets.codebuddy.texts, ...options })(
      Agent.run({ prompt: "x", toolkit: Kit, maxTurns: 10_000 })
    )
    const program = Object.keys(options).length === 0 ? run : own
    const stop = yield* Effect.flip(program).pipe(Effect.provide([handlers, Failover.layer([target])]))
    if (stop._tag !== "SafetyStop") throw new Error(stop._tag)
    return stop
  })

describe("the guard", () => {
  const caps: ReadonlyArray<readonly [string, string, number, (turn: number) => Record<string, string>]> = [
    ["000-L3-tool-edit", "edit_file", 8, (turn) => ({ path: `/src/${word(turn)}.ts`, text: word(turn) })],
    ["000-L3-tool-delete", "delete_file", 3, (turn) => ({ path: `/src/${word(turn)}.ts` })],
    ["000-L3-tool-run", "run_command", 10, (turn) => ({ command: `make ${word(turn)}` })],
    ["000-L3-tool-terminal", "run_terminal_command", 100, (turn) => ({ command: `make ${word(turn)}` })],
    ["000-L3-tool-web", "web_search", 8, (turn) => ({ query: word(turn) })]
  ]
  for (const [id, tool, cap, params] of caps) {
    it.effect(`${id}: stops behind ${cap} calls of ${tool}`, () =>
      Effect.gen(function* () {
        const stop = yield* stopOf(tool, params)
        assert.deepInclude(stop, { reason: "tool_limit", limit: cap, subject: tool })
        assert.strictEqual(stop.counts.toolCalls, cap)
      })
    )
  }

  it.effect("000-L3-events: stops at 2,000 events of the transcript", () =>
    Effect.gen(function* () {
      const stop = yield* stopOf(
        "run_terminal_command",
        (turn) => ({ command: word(turn) }),
        {
          tools: {},
          toolCalls: 5_000
        },
        20
      )
      assert.deepInclude(stop, { reason: "max_events", limit: 2_000 })
      assert.isAtMost(stop.counts.events, 2_000)
    })
  )

  it.effect(
    "000-L3-file-loop, 000-L3-file-threshold, 000-L3-file-reason: stops the fifth edit of one file, with the reason file_loop",
    () =>
      Effect.gen(function* () {
        const stop = yield* stopOf("edit_file", (turn) => ({ path: "/src/app.tsx", text: word(turn) }))
        assert.deepInclude(stop, { reason: "file_loop", limit: 4 })
        assert.strictEqual(stop.counts.toolCalls, 4)
        assert.include(stop.message, "reached maximum of 4 edits of")
      })
  )

  it("000-L3-file-threshold: has a threshold that can be set", () => {
    assert.deepInclude(Limits.make({ ...Presets.codebuddy.limits, fileEdits: 7 }), { fileEdits: 7 })
  })

  it.effect("000-L3-message-text: ends with exactly the sentence of the document", () =>
    Effect.gen(function* () {
      const stop = yield* stopOf("run_terminal_command", (turn) => ({ command: word(turn) }), {
        tools: {},
        toolCalls: 400
      })
      assert.strictEqual(
        stop.message,
        "Forced stop: reached maximum of 400 tool invocations. Events processed: 800 | Tool calls: 400 | Elapsed: 0s. Please review the work completed so far."
      )
    })
  )
})

// -----------------------------------------------------------------------------
// Layer 4
// -----------------------------------------------------------------------------

const tokens = (count: number): string => "word ".repeat(Math.ceil((count * 4) / 5))

const talk = (count: number, each: number) =>
  Prompt.make(
    Array.from({ length: count }, (_, n) => ({
      role: n % 2 === 0 ? ("user" as const) : ("assistant" as const),
      content: tokens(each)
    }))
  )

describe("compaction", () => {
  it.effect("000-L4-warn80: warns in the log at 80 % of the window, and prepares a summary", () =>
    Effect.gen(function* () {
      const log = logged()
      const { layer, of } = recorded()
      const target = yield* model("anthropic", "m1")
      const fitted = (each: number) =>
        Effect.flatMap(Compaction.Compaction, ({ fit }) => fit(talk(10, each), { window: 10_000 }))
      yield* Effect.gen(function* () {
        yield* fitted(700)
        assert.deepStrictEqual(log.lines, [])
        yield* fitted(830)
        yield* TestClock.adjust("1 minute")
      }).pipe(Effect.provide(Presets.codebuddy.layer([target])), Effect.provide([layer, log.layer]))
      assert.lengthOf(log.lines, 1)
      assert.match(log.lines[0] ?? "", /^Warn: Context window at 8\d % .*: a summary is being prepared$/)
      assert.deepInclude(of("ContextFilling")[0], { preparing: true })
      assert.deepStrictEqual(of("ContextCompacted"), [])
      assert.isNotEmpty(yield* target.requests)
    })
  )

  it.effect("000-L4-auto90: compacts above 90 % of the window, and not below", () =>
    Effect.gen(function* () {
      const { layer, of } = recorded()
      const target = yield* model("anthropic", "m1")
      yield* Effect.gen(function* () {
        const { fit } = yield* Compaction.Compaction
        yield* fit(talk(10, 880), { window: 10_000 })
        assert.deepStrictEqual(of("ContextCompacted"), [])
        yield* fit(talk(10, 930), { window: 10_000 })
      }).pipe(Effect.provide(Presets.codebuddy.layer([target])), Effect.provide(layer))
      assert.lengthOf(of("ContextCompacted"), 1)
    })
  )

  it.effect("000-flow-compact: strips results, and summarises the oldest half where that is not enough", () =>
    Effect.gen(function* () {
      const { layer, of } = recorded()
      const target = yield* model("anthropic", "m1")
      const policy = { ...CompactionPolicy.codebuddy, tiers: ["strip", "half", "plain"] } as const
      const data = "data ".repeat(240)
      const results = Array.from({ length: 2 }, (_, n): ReadonlyArray<Prompt.MessageEncoded> => [
        {
          role: "assistant",
          content: [{ type: "tool-call", id: `${n}`, name: "look", params: {}, providerExecuted: false }]
        },
        {
          role: "tool",
          content: [
            {
              type: "tool-result",
              id: `${n}`,
              name: "look",
              result: data,
              isFailure: false,
              providerExecuted: false
            }
          ]
        }
      ]).flat()
      const prompt = Prompt.concat(Prompt.make(results), talk(10, 960))
      yield* Effect.gen(function* () {
        const llm = yield* LanguageModel.LanguageModel
        const compaction = yield* Compaction.make({ policy, summariser: { model: llm } })
        const { prompt: fitted } = yield* compaction.fit(prompt, { window: 10_000 })
        const said = JSON.stringify(fitted.content)
        assert.notInclude(said, data)
        assert.include(said, "hello")
      }).pipe(Effect.scoped, Effect.provide(Failover.layer([target])), Effect.provide(layer))
      assert.deepStrictEqual(
        of("ContextCompacted").map(({ tier }) => tier),
        ["half"]
      )
    })
  )
})

it.effect("000-L2-guard-override: is no failure of a provider, so no target is asked again", () =>
  Effect.gen(function* () {
    const target = yield* model("a", "m1", [always(status(429))])
    const run = SafetyGuard.run({ time: { total: "1 second" } })(ask).pipe(
      Effect.provide(Failover.layer([target], { policy: exact }))
    )
    const { took } = yield* inTime(timed(Effect.exit(run)))
    assert.strictEqual(took, 1_000)
    assert.deepStrictEqual(yield* timesOf(target), [0])
    assert.strictEqual(failed(new FailoverReason.Cancelled()).reason._tag, "Cancelled")
  })
)
