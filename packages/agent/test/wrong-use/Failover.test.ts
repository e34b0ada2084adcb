import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Layer, Schema } from "effect"
import { LanguageModel, Toolkit } from "effect/ai"
import {
  CallLimiter,
  ChainStore,
  Classifier,
  Compaction,
  Direct,
  Failover,
  FailoverReason,
  Order,
  Outlast,
  RecoveryPolicy
} from "@outlast/agent"
import { ForeignModel, OutputLimit } from "@outlast/agent/failover"
import { Rule } from "@outlast/agent/failure"
import * as KeyValueChainStore from "#agent/failover/chain/KeyValueChainStore"
import * as RedisChainStore from "#agent/failover/chain/RedisChainStore"
import { Backoff, CircuitBreaker } from "@outlast/resilience"
import { answer, failure, inTime, played, serverError, timesOf } from "../support.ts"
import { refuses, untyped } from "./refuses.ts"

const { interactive } = RecoveryPolicy
const { rows } = interactive
const target = () => played({ answers: [answer("hello")] })
const chainOf = (chain: unknown) => () => Failover.layer(untyped(chain))
const withOptions = (options: object) => () => Failover.layer([target()], untyped(options))
const withPolicy = (changes: object) => withOptions({ policy: { ...interactive, ...changes } })
const withRow = (changes: object) =>
  withPolicy({ rows: { ...rows, RateLimit: { ...rows.RateLimit, ...changes } } })
const classes =
  "Auth, AuthPermanent, Billing, RateLimit, RateLimitTooLarge, RateLimitWindow, Overloaded, ServerError, TimeoutConnect, Timeout, TimeoutLocal, Network, PermanentNetwork, ContextOverflow, ModelNotFound, FormatRequest, FormatResponse, OutputTooLong, ContentPolicy, Cancelled, Unknown"
const ask = LanguageModel.generateText({ prompt: "What is the plan?" })
const asked = (options: object) => () => ask.pipe(Effect.provide(withOptions(options)()))

describe("rejects a function of the options that returns", () => {
  const isHealthy = "InvalidOption: Failover: isHealthy must return an Effect<boolean>, got"
  refuses([
    ["a promise for isHealthy", asked({ isHealthy: async () => true }), `${isHealthy} a promise`],
    ["a boolean for isHealthy", asked({ isHealthy: () => true }), `${isHealthy} true`],
    [
      "a text in place of a boolean for isHealthy",
      asked({ isHealthy: () => Effect.succeed("no") }),
      `${isHealthy} "no"`
    ],
    [
      "a text for circuitsOf",
      asked({ circuitsOf: () => "api" }),
      'InvalidOption: Failover: circuitsOf must return { endpoint, model }, two names of circuits, got "api"'
    ],
    [
      "a function for compact",
      () =>
        ask.pipe(
          Effect.provide(
            Failover.layer(
              [played({ answers: [Effect.fail(failure(new FailoverReason.ContextOverflow({})))] })],
              { compact: untyped(Compaction.reactive) }
            )
          )
        ),
      "InvalidOption: Failover: compact must return an Effect<Prompt>, for example by Compaction.reactive(compaction, request), got a function"
    ]
  ])

  it.effect("false for isHealthy, with a failure that names the health check", () =>
    Effect.gen(function* () {
      const error = yield* inTime(Effect.flip(asked({ isHealthy: () => Effect.succeed(false) })()))
      assert.include(error.message, "the health check says that it is not healthy")
      assert.include(error.message, "`isHealthy`")
      assert.notInclude(error.message, "connection")
    })
  )
})

describe("rejects a chain that", () => {
  refuses([
    [
      "is empty",
      chainOf([]),
      'InvalidOption: Failover: the chain is empty. Add a target, for example Anthropic.model("…").'
    ],
    [
      "is missing",
      chainOf(undefined),
      'InvalidOption: Failover: chain must be a list of targets, for example [Anthropic.model("…")], got undefined'
    ],
    [
      "is one target",
      chainOf(target()),
      'InvalidOption: Failover: chain must be a list of targets, for example [Anthropic.model("…")], got a target'
    ],
    [
      "is the name of a model",
      chainOf("anthropic/claude-sonnet-4-5"),
      'InvalidOption: Failover: chain must be a list of targets, for example [Anthropic.model("…")], got a text that is not shown'
    ],
    [
      "has the name of a model",
      chainOf([target(), "gpt-5.1"]),
      'InvalidOption: Failover: chain[1] must be a target, for example Anthropic.model("…"), got "gpt-5.1"'
    ],
    [
      "has a Layer",
      chainOf([target(), Failover.layer([target()])]),
      'InvalidOption: Failover: chain[1] must be a target, for example Anthropic.model("…"), got a Layer'
    ],
    [
      "has a LanguageModel",
      () => Effect.flatMap(Failover.make([target()]), (model) => Failover.make(untyped([model]))),
      'InvalidOption: Failover: chain[0] must be a target, for example Anthropic.model("…"), got a LanguageModel'
    ],
    [
      "has the ProviderModel of a target",
      () => Effect.flatMap(target().build, (model) => Failover.make(untyped([model]))),
      'InvalidOption: Failover: chain[0] must be a target, for example Anthropic.model("…"), got a ProviderModel'
    ],
    [
      "has a constructor that was not called",
      chainOf([played]),
      'InvalidOption: Failover: chain[0] must be a target, for example Anthropic.model("…"), got a function'
    ],
    [
      "has a service key",
      chainOf([LanguageModel.LanguageModel]),
      'InvalidOption: Failover: chain[0] must be a target, for example Anthropic.model("…"), got the service key LanguageModel'
    ],
    [
      "has a target without a model",
      chainOf([{ ...target(), model: "" }]),
      'InvalidOption: Failover: chain[0].model must be a text that is not empty, got ""'
    ],
    [
      "has a target whose keys are texts",
      chainOf([{ ...target(), keys: ["A_KEY"] }]),
      'InvalidOption: Failover: chain[0].keys[0] must be a KeySource, for example KeySource.env("ANTHROPIC_API_KEY"), got "A_KEY"'
    ],
    [
      "has a target that is built by a function",
      chainOf([{ ...target(), build: () => target().build }]),
      "InvalidOption: Failover: chain[0].build must be an Effect, got a function"
    ],
    [
      "is a list for Direct",
      () => Direct.layer(untyped([target()])),
      'InvalidOption: Direct: target must be a target, for example Anthropic.model("…"), got a list of 1'
    ],
    [
      "has a foreign model without a Layer",
      () => ForeignModel.target(untyped({ provider: "v", model: "m", layer: LanguageModel.LanguageModel })),
      "InvalidOption: ForeignModel: layer must be a Layer of a LanguageModel, got the service key LanguageModel"
    ],
    [
      "has a foreign model with a window in words",
      () =>
        ForeignModel.target(
          untyped({ provider: "v", model: "m", layer: Layer.empty, info: { contextWindow: "200k" } })
        ),
      'InvalidOption: ForeignModel: info.contextWindow must be an integer of at least 1, got "200k"'
    ]
  ])
})

describe("rejects a foreign model that", () => {
  refuses([
    [
      "is a Layer",
      () => ForeignModel.fromLanguageModel(untyped(Layer.empty)),
      "InvalidOption: ForeignModel.fromLanguageModel: model must be a LanguageModel, as `yield* LanguageModel.LanguageModel` gives it, got a Layer"
    ]
  ])
})

describe("rejects an option of Failover that", () => {
  refuses([
    [
      "is unknown",
      withOptions({ retries: 3 }),
      'InvalidOption: Failover: "retries" is not an option. Options: policy, background, breaker, circuitsOf, retryBudget, isHealthy, order, store, limiter, compact'
    ],
    [
      "has its name in another library",
      withOptions({ maxRetries: 2 }),
      'InvalidOption: Failover: "maxRetries" is not an option. Options: policy, background, breaker, circuitsOf, retryBudget, isHealthy, order, store, limiter, compact'
    ],
    [
      "is not an object",
      () => Failover.layer([target()], untyped("interactive")),
      'InvalidOption: Failover: options must be an object, got "interactive"'
    ],
    [
      "names a policy",
      withOptions({ policy: "interactive" }),
      'InvalidOption: Failover: policy must be a policy, for example { ...Policy.interactive, maxAttempts: 3 }, got "interactive"'
    ],
    [
      "is a part of a policy",
      withOptions({ policy: { maxAttempts: 3 } }),
      'InvalidOption: Failover: policy must be a policy, for example { ...Policy.interactive, maxAttempts: 3 }, got {"maxAttempts":3}'
    ],
    [
      "names an order",
      withOptions({ order: "roundRobin" }),
      'InvalidOption: Failover: order must be an order, for example Order.roundRobin or Order.cheapest(), got "roundRobin"'
    ],
    [
      "is an order that was not called",
      withOptions({ order: Order.cheapest }),
      "InvalidOption: Failover: order must be an order, for example Order.roundRobin or Order.cheapest(), got a function"
    ],
    [
      "is a check that is not a function",
      withOptions({ isHealthy: Effect.succeed(true) }),
      "InvalidOption: Failover: isHealthy must be a function (target) => Effect<boolean>, got an Effect"
    ],
    [
      "is the layer of a breaker",
      withOptions({ breaker: CircuitBreaker.layer() }),
      "InvalidOption: Failover: breaker must be a circuit breaker, as CircuitBreaker.make gives it, got a Layer"
    ],
    [
      "is the Effect that makes a breaker",
      withOptions({ breaker: CircuitBreaker.make() }),
      "InvalidOption: Failover: breaker must be a circuit breaker, as CircuitBreaker.make gives it, got an Effect"
    ],
    [
      "is the key of a breaker",
      withOptions({ breaker: CircuitBreaker.CircuitBreaker }),
      "InvalidOption: Failover: breaker must be a circuit breaker, as CircuitBreaker.make gives it, got the service key CircuitBreaker"
    ],
    [
      "is the layer of a limiter",
      withOptions({ limiter: CallLimiter.layer() }),
      "InvalidOption: Failover: limiter must be false, or a limiter, as CallLimiter.make gives it, got a Layer"
    ],
    [
      "is a limiter that is on",
      withOptions({ limiter: true }),
      "InvalidOption: Failover: limiter must be false, or a limiter, as CallLimiter.make gives it, got true"
    ],
    [
      "is a store that was not called",
      withOptions({ store: ChainStore.memory }),
      "InvalidOption: Failover: store must be a ChainStore, for example ChainStore.memory(), got a function"
    ],
    [
      "is a budget in options",
      withOptions({ retryBudget: { ratio: 0.1 } }),
      'InvalidOption: Failover: retryBudget must be a retry budget, as RetryBudget.make gives it, got {"ratio":0.1}'
    ],
    [
      "is a compaction in words",
      withOptions({ compact: "auto" }),
      'InvalidOption: Failover: compact must be a function (prompt, failure) => Effect<Prompt>, for example Compaction.reactive(compaction, request), got "auto"'
    ],
    [
      "names circuits by a text",
      withOptions({ circuitsOf: "endpoint" }),
      'InvalidOption: Failover: circuitsOf must be a function (target) => { endpoint, model }, got "endpoint"'
    ]
  ])
})

describe("rejects a policy that", () => {
  refuses([
    [
      "has a duration that does not parse",
      withPolicy({ deadline: "5 secs" }),
      'InvalidOption: RecoveryPolicy: deadline must be a duration, for example "5 seconds", got "5 secs"'
    ],
    [
      "has a duration with an unknown unit",
      withPolicy({ patience: { secs: 5 } }),
      'InvalidOption: RecoveryPolicy: patience must be a duration, for example "5 seconds", got {"secs":5}'
    ],
    [
      "has a duration below zero",
      withPolicy({ maxWait: "-1 second" }),
      'InvalidOption: RecoveryPolicy: maxWait must be a duration of at least 0, got "-1 second"'
    ],
    [
      "has an unknown field",
      withPolicy({ retries: 3 }),
      'InvalidOption: RecoveryPolicy: "retries" is not an option. Options: classOf, rows, maxAttempts, deadline, maxWait, patience, shortWait, retryAfterJitter, maxCost, counters, maxCompactions, compactionsPer, circuits, probe, retryBudget, whenAllOut, lastResort, sharedBackoff, midStream, truncation, nudges, notices, wording, limits, hedge, outputRoom, pacing, heartbeat'
    ],
    ["lacks a field", withPolicy({ nudges: undefined }), "InvalidOption: RecoveryPolicy: nudges is missing"],
    [
      "has an unknown word",
      withPolicy({ whenAllOut: "throw" }),
      'InvalidOption: RecoveryPolicy: whenAllOut must be "wait" or "probe" or "fail", got "throw"'
    ],
    [
      "has null for a cost",
      withPolicy({ maxCost: null }),
      "InvalidOption: RecoveryPolicy: maxCost must be above 0 US dollars, got null"
    ],
    [
      "has a deadline in seconds",
      withPolicy({ deadline: 120 }),
      'InvalidOption: RecoveryPolicy: deadline must be a duration with its unit, such as "120 seconds" (a number is milliseconds), got 120'
    ],
    [
      "has a row of a class that does not exist",
      withPolicy({ rows: { ...rows, RateLimits: rows.RateLimit } }),
      `InvalidOption: RecoveryPolicy: rows.RateLimits is of no class that classOf gives. Classes: ${classes}`
    ],
    [
      "leads to a model that the chain does not have",
      withRow({ to: ["m", "gpt-9"] }),
      'InvalidOption: RecoveryPolicy: rows.RateLimit.to[1] must be "m", got "gpt-9"'
    ],
    [
      "is missing where it is made exact",
      () => RecoveryPolicy.withoutJitter(untyped(undefined)),
      "InvalidOption: RecoveryPolicy.withoutJitter: policy must be a policy, for example Policy.interactive, got undefined"
    ],
    [
      "has a steady cooldown of an unknown scope",
      () => RecoveryPolicy.steady(untyped("provider"), "1 minute"),
      'InvalidOption: RecoveryPolicy.steady: scope must be "key" or "key+model" or "model" or "endpoint", got "provider"'
    ],
    [
      "has a steady cooldown of no duration",
      () => RecoveryPolicy.steady("key", untyped("1m")),
      'InvalidOption: RecoveryPolicy.steady: length must be a duration, for example "5 seconds", got "1m"'
    ],
    [
      "has a limit of zero",
      withPolicy({ limits: { ...interactive.limits, idle: 0 } }),
      "InvalidOption: RecoveryPolicy: limits.idle must be a duration of at least 1ms, got 0"
    ],
    [
      "lacks a limit",
      withPolicy({ limits: { connect: "10 seconds" } }),
      "InvalidOption: RecoveryPolicy: limits.firstToken is missing"
    ],
    [
      "has an unknown limit",
      withPolicy({ limits: { ...interactive.limits, read: "1 second" } }),
      'InvalidOption: RecoveryPolicy: "limits.read" is not an option. Options: connect, firstToken, firstTokenReasoning, idle, idleReasoning, total, slow'
    ],
    [
      "has circuits that are on",
      withPolicy({ circuits: true }),
      "InvalidOption: RecoveryPolicy: circuits must be false, or options of CircuitBreaker.make, got true"
    ],
    [
      "has circuits that never open",
      withPolicy({ circuits: { trip: { consecutive: { failures: 0 } } } }),
      "InvalidOption: RecoveryPolicy: circuits.trip.consecutive.failures must be an integer of at least 1, got 0"
    ],
    [
      "has a budget in percent",
      withPolicy({ retryBudget: { ratio: 20 } }),
      "InvalidOption: RecoveryPolicy: retryBudget.ratio must be a finite number from 0 to 10, got 20"
    ],
    [
      "has a truncation without continuations",
      withPolicy({ truncation: { raiseTo: 64_000 } }),
      "InvalidOption: RecoveryPolicy: truncation.raises is missing"
    ],
    [
      "has an empty nudge",
      withPolicy({ nudges: { ...interactive.nudges, cut: "" } }),
      'InvalidOption: RecoveryPolicy: nudges.cut must be a text, or a function (context) => text, got ""'
    ],
    [
      "has a notice that is a text",
      withPolicy({ notices: { ...interactive.notices, switched: "switched" } }),
      'InvalidOption: RecoveryPolicy: notices.switched must be a function (change, failure) => text, got "switched"'
    ],
    [
      "has a wording in part",
      withPolicy({ wording: { goOn: "Weiter." } }),
      "InvalidOption: RecoveryPolicy: wording.unanswered is missing"
    ],
    [
      "has a row in part",
      withPolicy({ rows: { ...rows, RateLimit: { attempts: 3 } } }),
      "InvalidOption: RecoveryPolicy: rows.RateLimit.then is missing"
    ],
    [
      "has a row that is a number",
      withPolicy({ rows: { ...rows, RateLimit: 3 } }),
      "InvalidOption: RecoveryPolicy: rows.RateLimit must be a row, for example { ...RecoveryPolicy.base, attempts: 3 }, got 3"
    ],
    [
      "has rows in a list",
      withPolicy({ rows: [rows.RateLimit] }),
      "InvalidOption: RecoveryPolicy: rows must be an object with a row for each class, got a list of 1"
    ],
    [
      "has an unknown field in a row",
      withRow({ retries: 3 }),
      'InvalidOption: RecoveryPolicy: "rows.RateLimit.retries" is not an option. Options: then, attempts, pool, repeatsBeforeEquivalent, switchAfter, to, targets, backoff, retryAfter, cooldown, circuit, worthWaiting, nudge, midStream'
    ],
    [
      "has an unknown target in a row",
      withRow({ to: "fallback" }),
      'InvalidOption: RecoveryPolicy: rows.RateLimit.to must be "next" or "other-model" or "other-dialect" or a list of models, got "fallback"'
    ],
    [
      "has a misspelt scope",
      withRow({ cooldown: { ...RecoveryPolicy.steady("model", "1 minute"), scope: "modle" } }),
      'InvalidOption: RecoveryPolicy: rows.RateLimit.cooldown.scope must be "key" or "key+model" or "model" or "endpoint", got "modle"'
    ],
    [
      "has a cooldown that is a duration",
      withRow({ cooldown: "1 minute" }),
      'InvalidOption: RecoveryPolicy: rows.RateLimit.cooldown must be a cooldown, for example RecoveryPolicy.steady("model", "1 minute"), got "1 minute"'
    ],
    [
      "has a cap below the first cooldown",
      withRow({ cooldown: { ...RecoveryPolicy.steady("model", "1 minute"), cap: "1 second" } }),
      'InvalidOption: RecoveryPolicy: rows.RateLimit.cooldown.cap must be a duration of at least 1m, got "1 second"'
    ],
    [
      "has a backoff that is a duration",
      withRow({ backoff: "1 second" }),
      'InvalidOption: RecoveryPolicy: rows.RateLimit.backoff must be a Backoff, for example Backoff.exponential(), got "1 second"'
    ],
    [
      "has a backoff out of JSON",
      withRow({ backoff: JSON.parse(JSON.stringify(rows.RateLimit.backoff)) }),
      'InvalidOption: RecoveryPolicy: rows.RateLimit.backoff.initial must be a duration, for example "5 seconds", got an object'
    ],
    [
      "has a backoff that shrinks",
      withRow({ backoff: { ...Backoff.exponential(), factor: 0.5 } }),
      "InvalidOption: RecoveryPolicy: rows.RateLimit.backoff.factor must be a finite number of at least 1, got 0.5"
    ],
    [
      "has a word of a cooldown for a wait",
      withRow({ retryAfter: "not-before" }),
      'InvalidOption: RecoveryPolicy: rows.RateLimit.retryAfter must be "wins" or "minimum" or "ignored", got "not-before"'
    ],
    [
      "is out of JSON, which has no functions",
      () => RecoveryPolicy.validate(JSON.parse(JSON.stringify(interactive))),
      'InvalidOption: RecoveryPolicy: rows.RateLimit.backoff.initial must be a duration, for example "5 seconds", got an object'
    ],
    [
      "is out of JSON, which has no durations",
      () =>
        RecoveryPolicy.validate({
          ...JSON.parse(JSON.stringify(interactive)),
          rows,
          classOf: interactive.classOf
        }),
      'InvalidOption: RecoveryPolicy: deadline must be a duration, for example "5 seconds", got an object'
    ],
    [
      "lacks the row of a reason",
      withPolicy({ rows: { ...rows, RateLimit: undefined } }),
      'InvalidOption: RecoveryPolicy: rows.RateLimit is missing (classOf gives "RateLimit" for RateLimit)'
    ],
    [
      "lacks the row of a class of two",
      () => {
        const { AuthPermanent: _, ...others } = rows
        return Failover.layer([target()], { policy: untyped({ ...interactive, rows: others }) })
      },
      'InvalidOption: RecoveryPolicy: rows.AuthPermanent is missing (classOf gives "AuthPermanent" for Auth)'
    ],
    [
      "lacks the row of its own class",
      withPolicy({ classOf: ({ reason }: { reason: { _tag: string } }) => reason._tag.toLowerCase() }),
      'InvalidOption: RecoveryPolicy: rows.auth is missing (classOf gives "auth" for Auth)'
    ],
    [
      "has a class that is not named",
      withPolicy({ classOf: () => undefined }),
      "InvalidOption: RecoveryPolicy: classOf must give the name of a row, and gives undefined for Auth"
    ],
    [
      "has a class that every object has",
      withPolicy({ classOf: () => "constructor" }),
      'InvalidOption: RecoveryPolicy: rows.constructor is missing (classOf gives "constructor" for Auth)'
    ]
  ])

  it.effect("returns a class without a row at run time, which no sample shows", () =>
    Effect.gen(function* () {
      const classOf: typeof interactive.classOf = (failure) =>
        failure.target?.provider === "vendor" ? untyped("ours") : interactive.classOf(failure)
      const target = played({ answers: [Effect.fail(serverError)] })
      const exit = yield* inTime(
        Effect.exit(
          ask.pipe(Effect.provide(Failover.layer([target], { policy: { ...interactive, classOf } })))
        )
      )
      assert.strictEqual(exit._tag, "Failure")
      assert.include(
        String(exit),
        'RecoveryPolicy: rows.ours is missing (classOf gives "ours" for ServerError)'
      )
    })
  )

  it.effect("but accepts durations as text, e.g. from a JSON file", () =>
    Effect.gen(function* () {
      const file = `{ "attempts": 3, "backoff": { "_tag": "Exponential", "initial": "1 second", "factor": 2, "cap": "1 minute", "jitter": 0 } }`
      const policy = {
        ...interactive,
        deadline: untyped("2 minutes"),
        rows: { ...rows, ServerError: { ...rows.ServerError, ...JSON.parse(file) } }
      }
      const target = played({ answers: [Effect.fail(serverError)] })
      yield* inTime(Effect.exit(ask.pipe(Effect.provide(Failover.layer([target], { policy })))))
      assert.deepStrictEqual(timesOf(target), [0, 1_000, 3_000])
    })
  )
})

describe("rejects a call when", () => {
  const limited = (limit: unknown) => () =>
    ask.pipe(
      Effect.provideService(OutputLimit.OutputLimit, untyped(limit)),
      Effect.provide(Failover.layer([target()]))
    )
  refuses([
    [
      "an output limit is a text",
      limited("500"),
      'InvalidOption: OutputLimit: limit must be a number of tokens, or { start, max }, got "500"'
    ],
    [
      "an output limit is a part of a token",
      limited(0.5),
      "InvalidOption: OutputLimit: start must be an integer of at least 1, got 0.5"
    ],
    [
      "an output limit has an unknown field",
      limited({ start: 500, end: 1_000 }),
      'InvalidOption: OutputLimit: "limit.end" is not an option. Options: start, max'
    ],
    [
      "an output limit has no end",
      limited({ start: 500 }),
      "InvalidOption: OutputLimit: limit.max is missing"
    ],
    [
      "a stream has an unknown midStream",
      () => Outlast.streamText(untyped({ prompt: "x", midStream: "resume" })),
      'InvalidOption: Outlast.streamText: midStream must be "continue" or "fail" or "restart", got "resume"'
    ],
    [
      "a stream has an unknown option",
      () => Outlast.streamText(untyped({ prompt: "x", maxRetries: 2 })),
      'InvalidOption: Outlast.streamText: "maxRetries" is not an option. Options: prompt, toolkit, toolChoice, concurrency, disableToolCallResolution, toolCallValidation, midStream, schema, objectName'
    ],
    [
      "the schema of a stream is JSON Schema",
      () => Outlast.streamText(untyped({ prompt: "x", schema: { type: "object" } })),
      "InvalidOption: Outlast.streamText: schema must be a Schema, for example Schema.Struct({ name: Schema.String }), got an object"
    ],
    [
      "a stream of an object has tools",
      () => Outlast.streamText(untyped({ prompt: "x", schema: Schema.Struct({}), toolkit: Toolkit.empty })),
      "InvalidOption: Outlast.streamText: toolkit must be none beside a schema, got a function"
    ],
    [
      "a stream has no prompt",
      () => Outlast.streamText(untyped({ messages: [] })),
      'InvalidOption: Outlast.streamText: "messages" is not an option. Options: prompt, toolkit, toolChoice, concurrency, disableToolCallResolution, toolCallValidation, midStream, schema, objectName'
    ]
  ])
})

describe("rejects an order that", () => {
  refuses([
    [
      "has an unknown kind of token",
      () => Order.cheapest(untyped({ tokens: 1 })),
      'InvalidOption: Order.cheapest: "tokens" is not an option. Options: input, output, cacheRead'
    ],
    [
      "has a share in words",
      () => Order.fastest(untyped({ exploration: "5%" })),
      'InvalidOption: Order.fastest: exploration must be a finite number from 0 to 1, got "5%"'
    ],
    [
      "forgets after no time",
      () => Order.fastest(untyped({ forgetAfter: { mins: 5 } })),
      'InvalidOption: Order.fastest: forgetAfter must be a duration, for example "5 seconds", got {"mins":5}'
    ],
    [
      "has an affinity with a name",
      () => Order.withAffinity(untyped("sticky")),
      'InvalidOption: Order.withAffinity: order must be an order, for example Order.roundRobin or Order.cheapest(), got "sticky"'
    ],
    [
      "has an affinity with an unknown option",
      () => Order.withAffinity(Order.sticky, untyped({ ttl: "5 minutes" })),
      'InvalidOption: Order.withAffinity: "ttl" is not an option. Options: timeToLive'
    ]
  ])
})

describe("rejects a store that", () => {
  refuses([
    [
      "uses Redis with a URL in place of a Layer",
      () => RedisChainStore.make(untyped({ redis: "redis://localhost" })),
      'InvalidOption: RedisChainStore: redis must be a Layer of Redis, for example NodeRedis.layer({ url }), got "redis://localhost"'
    ],
    [
      "uses Redis with an unknown option",
      () => RedisChainStore.make(untyped({ redis: Layer.empty, url: "x" })),
      'InvalidOption: RedisChainStore: "url" is not an option. Options: redis, prefix'
    ],
    [
      "uses a KeyValueStore with a path in place of a Layer",
      () => KeyValueChainStore.make(untyped({ keyValueStore: "./state" })),
      'InvalidOption: KeyValueChainStore: keyValueStore must be a Layer of a KeyValueStore, got "./state"'
    ]
  ])
})

describe("rejects a rule that", () => {
  const common = { id: "gateway/full", why: "It is full.", reason: new FailoverReason.Overloaded() }
  refuses([
    [
      "has a reason that is a text",
      () => Rule.code(untyped({ ...common, codes: ["FULL"], reason: "Overloaded" })),
      'InvalidOption: Rule: reason must be a FailoverReason, for example new FailoverReason.Overloaded(), or a function (facts) => reason, got "Overloaded"'
    ],
    [
      "has a reason that is a class",
      () => Rule.code(untyped({ ...common, codes: ["FULL"], reason: FailoverReason.Overloaded })),
      "InvalidOption: Rule: reason must be a FailoverReason, for example new FailoverReason.Overloaded(), or a function (facts) => reason, got a function"
    ],
    [
      "has one code in place of a list",
      () => Rule.code(untyped({ ...common, codes: "FULL" })),
      'InvalidOption: Rule: codes must be a list of codes, got "FULL"'
    ],
    [
      "has an unknown field",
      () => Rule.text(untyped({ ...common, phrases: ["no seats"], texts: [] })),
      'InvalidOption: Rule: "texts" is not an option. Options: id, why, reason, providers, when, phrases, also, unless'
    ],
    [
      "has statuses that are texts",
      () => Rule.status(untyped({ ...common, statuses: ["529"] })),
      'InvalidOption: Rule: statuses[0] must be an integer from 100 to 599, got "529"'
    ],
    [
      "has no id",
      () => Rule.code(untyped({ codes: ["FULL"], reason: common.reason })),
      "InvalidOption: Rule: id is missing"
    ],
    [
      "is not in a list",
      () => Classifier.layerWith(untyped(Rule.code({ ...common, codes: ["FULL"] }))),
      "InvalidOption: Classifier.layerWith: rules must be a list of rules, got an object"
    ],
    [
      "is in a list, but was not made",
      () => Classifier.layerWith(untyped([{ ...common, codes: ["FULL"] }])),
      "InvalidOption: Classifier.layerWith: rules[0] must be a rule, for example Rule.code({ … }), got an object"
    ]
  ])
})

it("accepts the Duration values that the type of a policy allows", () => {
  const policy = { ...interactive, deadline: Duration.infinity, patience: Duration.zero }
  assert.doesNotThrow(() => RecoveryPolicy.validate(policy))
})
