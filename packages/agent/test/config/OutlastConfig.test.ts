/** Settings from data and from the environment: ranges, paths of problems, and the effect of each field. */
import { assert, describe, it } from "@effect/vitest"
import {
  ConfigProvider,
  Deferred,
  Duration,
  Effect,
  Fiber,
  Logger,
  Redacted,
  Result,
  Schema,
  Stream
} from "effect"
import { LanguageModel } from "effect/ai"
import { TestClock } from "effect/testing"
import {
  Compaction,
  CompactionPolicy,
  Failover,
  KeySource,
  RecoveryPolicy,
  SafetyGuard
} from "@outlast/agent"
import { LiveConfig, OutlastConfig } from "@outlast/agent/config"
import type { FaultPlan } from "@outlast/testing"
import { Arbitraries, ScriptedModel, Timeline } from "@outlast/testing"

const decoded = (input: unknown) => Result.getOrThrow(OutlastConfig.decode(input))
const problems = (input: unknown) =>
  Result.match(OutlastConfig.decode(input), {
    onSuccess: () => [],
    onFailure: (error) => error.problems.map(({ path, problem }) => `${path}: ${problem}`)
  })

const ask = LanguageModel.generateText({ prompt: "?" })
const scripted = (faults: ReadonlyArray<FaultPlan.Step>, provider = "anthropic") =>
  ScriptedModel.make({ provider, model: "m", plan: { answers: [{ text: "Hello." }], faults } })

describe("OutlastConfig", () => {
  it("names the path of every problem, and the fields that exist", () => {
    const found = problems({
      polcy: {},
      policy: {
        maxAttempts: 0,
        deadline: "2 fortnights",
        limits: { conect: "1 second", idle: -5 },
        preset: "fast",
        rows: { RateLmit: { attempts: 2 } }
      },
      guard: { tools: { edit: -1 } }
    })
    assert.deepStrictEqual(found, [
      "polcy: is not a field. Did you mean policy? Fields: enabled, policy, guard, compaction",
      'policy.preset: expected "interactive" | "background" | "claw0" | "codebuddy" | "decision037" | "nexo" | "s11"',
      "policy.maxAttempts: expected a value between 1 and 1000",
      'policy.deadline: expected a time such as "30 seconds", or a number of milliseconds',
      "policy.limits.conect: is not a field. Did you mean connect? Fields: connect, firstToken, firstTokenReasoning, idle, idleReasoning, total",
      'policy.limits.idle: expected a time from 1ms to 1d, such as "30 seconds"',
      "guard.tools.edit: expected a value between 0 and 1000000"
    ])
  })

  it("finds settings that contradict each other, and classes that a preset does not have", () => {
    assert.deepStrictEqual(problems({ compaction: { act: 0.5, downTo: 0.6 } }), [
      "compaction.downTo: must be at most act (0.5)"
    ])
    const [unknown] = problems({ policy: { rows: { RateLmit: { attempts: 2 } } } })
    assert.match(
      unknown ?? "",
      /^policy\.rows\.RateLmit: is not a class of this preset\. Classes: RateLimit, /
    )
    assert.deepStrictEqual(
      problems({ policy: { preset: "decision037", rows: { LogicError: { attempts: 2 } } } }),
      []
    )
    assert.deepStrictEqual(problems(null).length, 1)
    assert.deepStrictEqual(problems([]).length, 1)
  })

  it("turns the hedge of a preset without one on, and names problems in parts that may be off", () => {
    const { hedge } = OutlastConfig.policyOf(
      decoded({ policy: { preset: "background", hedge: { atMost: 0.1 } } })
    )
    assert.isFalse(OutlastConfig.policyOf(decoded({ policy: { preset: "background", hedge: {} } })).hedge)
    const usual = RecoveryPolicy.interactive.hedge
    assert.isObject(usual)
    assert.deepEqual(hedge, Object.assign({}, usual, { atMost: 0.1 }))
    assert.deepStrictEqual(problems({ policy: { hedge: { after: "soon", atmost: 1 }, probe: true } }), [
      "policy.probe: expected false, or an object with share, atMost",
      "policy.hedge.atmost: is not a field. Did you mean atMost? Fields: after, afterLook, atMost, reserve, thinking",
      'policy.hedge.after: expected a time such as "30 seconds", or a number of milliseconds'
    ])
  })

  it("quotes no value, because it may be a key", () => {
    const secret = "sk-ant-api03-very-secret"
    assert.notInclude(problems({ policy: { deadline: secret }, guard: { turns: secret } }).join(), secret)
  })

  it("keeps the preset for absent fields", () => {
    assert.deepStrictEqual(OutlastConfig.policyOf(decoded({})), RecoveryPolicy.interactive)
    assert.deepStrictEqual(
      OutlastConfig.policyOf(decoded({ policy: { preset: "background" } })),
      RecoveryPolicy.background
    )
    assert.deepStrictEqual(OutlastConfig.compactionOf(decoded({})), CompactionPolicy.defaults)
    assert.deepStrictEqual(OutlastConfig.limitsOf(decoded({})), {})
  })

  /** Each leaf of the schema, a value that differs from the default, and where it ends. */
  const { rows } = RecoveryPolicy.interactive
  const effects: ReadonlyArray<
    readonly [path: string, value: unknown, changed: (config: never) => unknown, is: unknown]
  > = [
    ...(["maxAttempts", "retryAfterJitter", "maxCost", "maxCompactions"] as const).map(
      (name) => [`policy.${name}`, 1, (made: Made) => made.policy[name], 1] as const
    ),
    ...(["deadline", "maxWait", "patience", "shortWait"] as const).map(
      (name) =>
        [`policy.${name}`, "7 seconds", (made: Made) => made.policy[name], Duration.seconds(7)] as const
    ),
    ["policy.preset", "background", (made: Made) => made.policy.deadline, Duration.minutes(30)],
    ["policy.whenAllOut", "probe", (made: Made) => made.policy.whenAllOut, "probe"],
    ["policy.lastResort", false, (made: Made) => made.policy.lastResort, false],
    ["policy.sharedBackoff", false, (made: Made) => made.policy.sharedBackoff, false],
    ["policy.midStream", "fail", (made: Made) => made.policy.midStream, "fail"],
    ["policy.circuits", false, (made: Made) => made.policy.circuits, false],
    ["policy.retryBudget", false, (made: Made) => made.policy.retryBudget, false],
    ["policy.hedge", false, (made: Made) => made.policy.hedge, false],
    ["policy.probe", false, (made: Made) => made.policy.probe, false],
    ...(
      [
        ["hedge.after", "3 seconds", Duration.seconds(3)],
        ["hedge.afterLook", "4 seconds", Duration.seconds(4)],
        ["hedge.atMost", 0.5, 0.5],
        ["hedge.reserve", 0, 0],
        ["hedge.thinking", true, true],
        ["probe.share", 0.5, 0.5],
        ["probe.atMost", "5 seconds", Duration.seconds(5)]
      ] as const
    ).map(
      ([path, value, is]) =>
        [
          `policy.${path}`,
          value,
          ({ policy }: Made) => {
            const [part, field] = path.split(".") as ["hedge" | "probe", string]
            return Object.entries(policy[part]).find(([name]) => name === field)?.[1]
          },
          is
        ] as const
    ),
    ...(["connect", "firstToken", "firstTokenReasoning", "idle", "idleReasoning", "total"] as const).map(
      (name) =>
        [
          `policy.limits.${name}`,
          1_500,
          (made: Made) => made.policy.limits[name],
          Duration.millis(1_500)
        ] as const
    ),
    ["policy.rows.RateLimit.attempts", 9, (made: Made) => made.policy.rows["RateLimit"]?.attempts, 9],
    ["policy.rows.RateLimit.then", "move", (made: Made) => made.policy.rows["RateLimit"]?.then, "move"],
    [
      "policy.rows.RateLimit.retryAfter",
      "wins",
      (made: Made) => made.policy.rows["RateLimit"]?.retryAfter,
      "wins"
    ],
    [
      "policy.rows.RateLimit.cooldown",
      "2 seconds",
      (made: Made) => made.policy.rows["RateLimit"]?.cooldown?.initial,
      Duration.seconds(2)
    ],
    ...(
      [
        ["initial", "3 seconds", Duration.seconds(3)],
        ["factor", 3, 3],
        ["cap", "9 seconds", Duration.seconds(9)],
        ["jitter", 0.4, 0.4]
      ] as const
    ).map(
      ([name, value, is]) =>
        [
          `policy.rows.ServerError.backoff.${name}`,
          value,
          (made: Made) =>
            (made.policy.rows["ServerError"]?.backoff as Record<string, unknown> | undefined)?.[name],
          is
        ] as const
    ),
    ...(["toolCalls", "turns", "events", "tokens", "money", "fileEdits"] as const).map(
      (name) => [`guard.${name}`, 3, (made: Made) => made.guard[name], 3] as const
    ),
    ["guard.activeTime", "3 minutes", (made: Made) => timesOf(made).active, Duration.minutes(3)],
    ["guard.totalTime", "4 minutes", (made: Made) => timesOf(made).total, Duration.minutes(4)],
    ["guard.tools.edit", 2, (made: Made) => made.guard.tools?.["edit"], 2],
    ...(["depth", "breadth", "total"] as const).map(
      (name) => [`guard.subagents.${name}`, 5, (made: Made) => made.guard.subagents?.[name], 5] as const
    ),
    ...(["warn", "act", "reserve", "maxAnswer", "downTo", "maxResult"] as const).map(
      (name) => [`compaction.${name}`, 0.61, (made: Made) => made.compaction[name], 0.61] as const
    )
  ]
  interface Made {
    readonly policy: RecoveryPolicy.RecoveryPolicy<string>
    readonly guard: ReturnType<typeof OutlastConfig.limitsOf>
    readonly compaction: CompactionPolicy.CompactionPolicy
  }
  const timesOf = ({ guard }: Made) =>
    (guard.time ?? {}) as { readonly active?: unknown; readonly total?: unknown }
  const madeOf = (input: unknown): Made => {
    const config = decoded(input)
    return {
      policy: OutlastConfig.policyOf(config),
      guard: OutlastConfig.limitsOf(config),
      compaction: OutlastConfig.compactionOf(config)
    }
  }
  const at = (path: string, value: unknown): unknown =>
    path.split(".").reduceRight<unknown>((inner, name) => ({ [name]: inner }), value)

  it.each(effects.map((row) => [row[0], row] as const))(
    "%s changes what it names",
    (_, [path, value, changed, is]) => {
      const read = changed as unknown as (made: Made) => unknown
      assert.deepStrictEqual(read(madeOf(at(path, value))), is)
      assert.notDeepEqual(read(madeOf({ compaction: { downTo: 0.4 } })), is)
    }
  )

  it("covers every field of the schema", () => {
    const leaves = (schema: unknown, path: string): ReadonlyArray<string> => {
      const { anyOf, properties, additionalProperties } = schema as {
        readonly anyOf?: ReadonlyArray<unknown>
        readonly properties?: Readonly<Record<string, unknown>>
        readonly additionalProperties?: unknown
      }
      if (anyOf !== undefined) return [...new Set(anyOf.flatMap((form) => leaves(form, path)))]
      if (properties !== undefined)
        return Object.entries(properties).flatMap(([name, inner]) => leaves(inner, `${path}.${name}`))
      return typeof additionalProperties === "object"
        ? leaves(additionalProperties, `${path}.*`)
        : [path.slice(1)]
    }
    const tested = new Set(
      effects.map(([path]) => path.replace(/rows\.\w+/, "rows.*").replace(/tools\.\w+/, "tools.*"))
    )
    const all = leaves(OutlastConfig.jsonSchema(), "").filter(
      (path) => path !== "$schema" && path !== "enabled"
    )
    assert.deepStrictEqual(
      all.filter((path) => !tested.has(path)),
      []
    )
    assert.isAbove(all.length, 40)
    assert.include(Object.keys(rows), "RateLimit")
  })

  it.effect("is read from the environment, in upper case with underscores", () =>
    Effect.gen(function* () {
      const env = {
        OUTLAST_ENABLED: "false",
        OUTLAST_POLICY_PRESET: "background",
        OUTLAST_POLICY_MAX_ATTEMPTS: "3",
        OUTLAST_POLICY_LIMITS_FIRST_TOKEN: "5 seconds",
        OUTLAST_GUARD_TOOL_CALLS: "7"
      }
      const provided = ConfigProvider.layer(ConfigProvider.fromEnv({ env }))
      const config = yield* OutlastConfig.load.pipe(Effect.provide(provided))
      assert.deepStrictEqual(config, {
        enabled: false,
        policy: { preset: "background", maxAttempts: 3, limits: { firstToken: Duration.seconds(5) } },
        guard: { toolCalls: 7 }
      })
      const wrong = ConfigProvider.layer(
        ConfigProvider.fromEnv({ env: { OUTLAST_POLICY_MAX_ATTEMPTS: "0" } })
      )
      const error = yield* Effect.flip(OutlastConfig.load.pipe(Effect.provide(wrong)))
      assert.include(error.message, "OUTLAST_POLICY_MAX_ATTEMPTS: expected a value between 1 and 1000")
    })
  )

  describe("in the environment", () => {
    const loaded = (env: Record<string, string>) =>
      Effect.provide(OutlastConfig.load, ConfigProvider.layer(ConfigProvider.fromEnv({ env })))

    it.effect("a problem names the variable", () =>
      Effect.gen(function* () {
        const wrong: ReadonlyArray<readonly [env: Record<string, string>, problem: string]> = [
          [{ OUTLAST_POLICY_MAX_ATTEMPTS: "many" }, "OUTLAST_POLICY_MAX_ATTEMPTS: expected a number"],
          [{ OUTLAST_POLICY_LIMITS_CONNECT: "soon" }, "OUTLAST_POLICY_LIMITS_CONNECT: expected a time"],
          [{ OUTLAST_POLICY_HEDGE_AFTER: "soon" }, "OUTLAST_POLICY_HEDGE_AFTER: expected a time"],
          [{ OUTLAST_POLICY_HEDGE: "off" }, 'OUTLAST_POLICY_HEDGE: expected "false"'],
          [{ OUTLAST_POLICY_PRESET: "nope" }, 'OUTLAST_POLICY_PRESET: expected "interactive" | '],
          // Values that contradict each other.
          [{ OUTLAST_COMPACTION_ACT: "0.4" }, "OUTLAST_COMPACTION_DOWN_TO: must be at most act (0.4)"]
        ]
        for (const [env, problem] of wrong) {
          const error = yield* Effect.flip(loaded(env))
          assert.strictEqual(error._tag, "ConfigInvalid")
          assert.include(error.message, `The configuration has a problem.\n  ${problem}`)
          assert.notInclude(error.message, '"outlast"')
        }
      })
    )

    it.effect("warns about a variable that is no setting, and names the nearest one", () =>
      Effect.gen(function* () {
        const warned = (env: Record<string, string>) =>
          Effect.gen(function* () {
            const lines: Array<unknown> = []
            const logger = Logger.make(({ message }) => void lines.push(message))
            yield* loaded(env).pipe(Effect.provide(Logger.layer([logger])))
            return lines.flat()
          })
        const isNone = "is not a setting, and has no effect."
        assert.deepStrictEqual(
          yield* warned({ OUTLAST_POLICY_MAX_ATEMPTS: "3", OUTLAST_GUARD_TOOLCALLS: "7" }),
          [
            `The variable OUTLAST_GUARD_TOOLCALLS ${isNone} Did you mean OUTLAST_GUARD_TOOL_CALLS?`,
            `The variable OUTLAST_POLICY_MAX_ATEMPTS ${isNone} Did you mean OUTLAST_POLICY_MAX_ATTEMPTS?`
          ]
        )
        assert.deepStrictEqual(yield* warned({ OUTLAST_POLCY_PRESET: "background" }), [
          `The variable OUTLAST_POLCY_PRESET ${isNone} Did you mean OUTLAST_POLICY_PRESET?`
        ])
        assert.deepStrictEqual(yield* warned({ OUTLAST_POLICY_COLOUR_OF_THE_SKY: "blue" }), [
          `The variable OUTLAST_POLICY_COLOUR_OF_THE_SKY ${isNone}`
        ])
        // Settings, names of tools, and variables of commands and programs.
        const others = {
          OUTLAST_ENABLED: "true",
          OUTLAST_POLICY_MAX_ATTEMPTS: "3",
          OUTLAST_GUARD_TOOLS_BASH: "3",
          OUTLAST_STORE: "a.db",
          OUTLAST_OPS_TOKEN: "x",
          MY_POLICY: "x"
        }
        assert.deepStrictEqual(yield* warned(others), [])
      })
    )

    it("a field of a file that is misspelt is told the nearest one", () => {
      assert.deepStrictEqual(
        problems({ policy: { maxAtempts: 3 } }).map((problem) => problem.slice(0, 64)),
        ["policy.maxAtempts: is not a field. Did you mean maxAttempts? Fie"]
      )
    })
  })

  it.effect("layerConfig gives a chain the policy of the environment", () =>
    Effect.gen(function* () {
      const model = yield* scripted([{ times: "always", fault: { type: "status", status: 500 } }])
      const env = ConfigProvider.layer(ConfigProvider.fromEnv({ env: { OUTLAST_POLICY_MAX_ATTEMPTS: "2" } }))
      const timeline = yield* Timeline.record(
        ask.pipe(Effect.provide(OutlastConfig.layerConfig([model])), Effect.provide(env))
      )
      assert.lengthOf(yield* model.requests, 2)
      assert.include(timeline.lines.at(-1) ?? "", "end: failure")
      const off = ConfigProvider.layer(ConfigProvider.fromEnv({ env: { OUTLAST_ENABLED: "false" } }))
      yield* Effect.flip(ask).pipe(Effect.provide(OutlastConfig.layerConfig([model])), Effect.provide(off))
      assert.lengthOf(yield* model.requests, 3)
    })
  )

  it.effect("limits reach the guard, and shares reach compaction", () =>
    Effect.gen(function* () {
      const config = decoded({ guard: { turns: 1 }, compaction: { act: 0.5, downTo: 0.4, warn: 0.4 } })
      const model = yield* scripted([])
      const stopped = yield* Effect.andThen(ask, ask).pipe(
        SafetyGuard.run(OutlastConfig.limitsOf(config)),
        Effect.provide(Failover.layer([model])),
        Effect.flip
      )
      assert.strictEqual(stopped._tag, "SafetyStop")
      const compaction = yield* Compaction.make({ policy: OutlastConfig.compactionOf(config) })
      assert.strictEqual(compaction.policy.act, 0.5)
    })
  )

  it.effect.prop(
    "every policy that can be generated is accepted by the checks of settings",
    { policy: Arbitraries.Policy },
    ({ policy }) => Effect.sync(() => assert.doesNotThrow(() => RecoveryPolicy.validate(policy)))
  )

  it("has a JSON Schema that knows ranges, texts and descriptions", () => {
    const schema = OutlastConfig.jsonSchema() as never as {
      readonly properties: { readonly policy: { readonly properties: Record<string, unknown> } }
    }
    assert.deepInclude(schema.properties.policy.properties["maxAttempts"] as object, {
      type: "integer",
      minimum: 1,
      maximum: 1_000,
      description: "Attempts of one call over all targets."
    })
    assert.isFalse((schema as never as { additionalProperties: boolean }).additionalProperties)
    assert.deepStrictEqual(problems({ $schema: "./outlast.schema.json" }), [])
    assert.isTrue(Schema.isSchema(OutlastConfig.OutlastConfig))
  })
})

describe("LiveConfig", () => {
  const key = (name: string) => KeySource.value(name, Redacted.make(name))

  it.effect("uses a changed policy from the next call on, and keeps cooldowns", () =>
    Effect.gen(function* () {
      const claude = yield* ScriptedModel.make({
        provider: "anthropic",
        model: "m",
        keys: [key("a"), key("b")],
        plan: {
          answers: [{ text: "Hello." }],
          faults: [{ when: { key: "a" }, fault: { type: "status", status: 401 } }]
        }
      })
      const live = yield* LiveConfig.make({ policy: { maxAttempts: 5 } })
      const asked = Effect.map(claude.requests, (all) => all.map(({ key }) => key).join(""))
      yield* Effect.gen(function* () {
        yield* ask
        assert.strictEqual(yield* asked, "ab")
        yield* live.set({ policy: { maxAttempts: 1 } })
        // The key that was refused is still out under the new policy.
        yield* ask
        assert.strictEqual(yield* asked, "abb")
      }).pipe(Effect.provide(LiveConfig.layerFailover([claude], live)))
    })
  )

  it.effect("applies new limits: a call is repeated under one policy and not under the next", () =>
    Effect.gen(function* () {
      const model = yield* scripted([{ times: "always", fault: { type: "status", status: 500 } }])
      const rows = { ServerError: { backoff: { initial: 0, cap: 0 } } }
      const live = yield* LiveConfig.make(decoded({ policy: { maxAttempts: 3, rows } }))
      yield* Effect.gen(function* () {
        yield* Effect.ignore(ask)
        assert.lengthOf(yield* model.requests, 3)
        yield* live.update((config) => ({ ...config, policy: { ...config.policy, maxAttempts: 1 } }))
        yield* Effect.ignore(ask)
        assert.lengthOf(yield* model.requests, 4)
      }).pipe(Effect.provide(LiveConfig.layerFailover([model], live)))
    })
  )

  it.effect("a call under way ends with the settings that it began with", () =>
    Effect.gen(function* () {
      const model = yield* ScriptedModel.make({
        provider: "anthropic",
        model: "m",
        plan: { answers: [{ text: "one two three" }], faults: [{ fault: { type: "slow", delay: 1_000 } }] }
      })
      const live = yield* LiveConfig.make()
      yield* Effect.gen(function* () {
        const begun = yield* Deferred.make<void>()
        const fiber = yield* LanguageModel.streamText({ prompt: "?" }).pipe(
          Stream.tap(() => Deferred.succeed(begun, undefined)),
          Stream.runCount,
          Effect.forkChild
        )
        yield* TestClock.adjust("1 second")
        yield* TestClock.adjust("1 second")
        yield* Deferred.await(begun)
        yield* live.set({ policy: { maxAttempts: 1 } })
        assert.strictEqual((yield* ask).text, "one two three")
        yield* TestClock.adjust("10 seconds")
        assert.isAbove(yield* Fiber.join(fiber), 3)
      }).pipe(Effect.provide(LiveConfig.layerFailover([model], live)))
    })
  )

  it.effect("the kill switch sends each call once to the first target, until it is turned back", () =>
    Effect.gen(function* () {
      const first = yield* scripted([{ times: 2, fault: { type: "status", status: 500 } }])
      const second = yield* scripted([], "openai")
      const live = yield* LiveConfig.make({ enabled: false })
      yield* Effect.gen(function* () {
        yield* Effect.flip(ask)
        assert.deepStrictEqual([(yield* first.requests).length, (yield* second.requests).length], [1, 0])
        yield* live.set({ enabled: true, policy: { rows: { ServerError: { then: "move" } } } })
        assert.strictEqual((yield* ask).text, "Hello.")
        assert.deepStrictEqual([(yield* first.requests).length, (yield* second.requests).length], [2, 1])
      }).pipe(Effect.provide(LiveConfig.layerFailover([first, second], live)))
    })
  )

  it.effect("keeps the current settings when new ones are wrong", () =>
    Effect.gen(function* () {
      const live = yield* LiveConfig.make({ compaction: { act: 0.8 } })
      const error = yield* Effect.flip(live.set({ compaction: { act: 0.5, downTo: 0.6 } }))
      assert.strictEqual(error._tag, "ConfigInvalid")
      assert.deepStrictEqual(yield* live.get, { compaction: { act: 0.8 } })
    })
  )
})
