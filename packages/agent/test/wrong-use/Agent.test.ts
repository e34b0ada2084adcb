import { describe } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { LanguageModel, Prompt, Tool, Toolkit } from "effect/ai"
import type { EmbeddingModel } from "effect/ai"
import {
  Agent,
  CallLimiter,
  Compaction,
  CompactionPolicy,
  Failover,
  Presets,
  Resilient,
  SafetyGuard
} from "@outlast/agent"
import { ContextWindows, Recall, RecallStore, TokenCounter } from "@outlast/agent/compaction"
import { Inbound, LoopDetector, Requirements } from "@outlast/agent/guard"
import { Priority } from "@outlast/agent/limiter"
import * as LimitStore from "#agent/limiter/LimitStore"
import { answer, finish, played, toolCall } from "../support.ts"
import { refuses, untyped } from "./refuses.ts"

const target = { id: "vendor/m", provider: "vendor", model: "m", endpoint: "", key: "" }
const model = Failover.layer([played({ answers: [answer("hello")] })])

const Kit = Toolkit.make(Tool.make("look", { success: Schema.String }))
const Asking = Toolkit.make(Tool.make("pay", { success: Schema.String, needsApproval: true }))
/** A model that calls a tool. */
const calling = (tool: string) =>
  Failover.layer([
    played({ answers: [Effect.succeed([toolCall("1", { name: tool }), finish("tool-calls")])] })
  ])

describe("rejects a run that", () => {
  const run = (options: object) => () => Agent.run(untyped({ prompt: "x", ...options }))
  refuses([
    [
      "has no options",
      () => Agent.run(untyped("Fix the test.")),
      "InvalidOption: Agent: options must be options such as { prompt, toolkit }, got a text"
    ],
    [
      "has a message of an unknown role",
      run({ prompt: [{ role: "bot", content: "x" }] }),
      'InvalidOption: Agent: prompt[0].role must be "system" or "user" or "assistant" or "tool", got "bot"'
    ],
    [
      "has a message with parts in place of a content",
      run({ prompt: [{ role: "user", parts: [{ type: "text", text: "x" }] }] }),
      "InvalidOption: Agent: prompt[0].content must be a text or a list of parts, got undefined"
    ],
    [
      "has a text among its messages",
      run({ prompt: ["Fix the test."] }),
      'InvalidOption: Agent: prompt[0] must be a message, for example { role: "user", content }, got a text'
    ],
    [
      "has a toolkit without handlers",
      () => Agent.run({ prompt: "x", toolkit: Kit }).pipe(Effect.provide(model)),
      'MissingService: The handler of look is not provided. Provide toolkit.toLayer({ "look": (params) => Effect }).'
    ],
    [
      "has a handler that returns a promise",
      () =>
        Agent.run({ prompt: "x", toolkit: Kit }).pipe(
          Effect.provide([calling("look"), Kit.toLayer(untyped({ look: async () => "seen" }))])
        ),
      "InvalidOption: Agent: the handler of look must return an Effect, got a promise"
    ],
    [
      "has an `approve` that returns a promise",
      () =>
        Agent.run({ prompt: "x", toolkit: Asking, approve: untyped(async () => true) }).pipe(
          Effect.provide([calling("pay"), Asking.toLayer({ pay: () => Effect.succeed("paid") })])
        ),
      "InvalidOption: Agent: approve must return an Effect<boolean>, got a promise"
    ],
    ["has no prompt", run({ prompt: undefined }), "InvalidOption: Agent: prompt is missing"],
    [
      "has a prompt of another kind",
      run({ prompt: { text: "x" } }),
      "InvalidOption: Agent: prompt must be a text, a Prompt or a list of messages, got an object"
    ],
    [
      "has tools in place of a toolkit",
      run({ toolkit: [Tool.make("look")] }),
      "InvalidOption: Agent: toolkit must be a Toolkit, for example Toolkit.make(tool), got a list of 1"
    ],
    [
      "has a tool in place of a toolkit",
      run({ toolkit: Tool.make("look") }),
      "InvalidOption: Agent: toolkit must be a Toolkit, for example Toolkit.make(tool), got a tool"
    ],
    [
      "has a Layer in place of a toolkit",
      run({ toolkit: Layer.empty }),
      "InvalidOption: Agent: toolkit must be a Toolkit, for example Toolkit.make(tool), got a Layer"
    ],
    [
      "has an unknown option",
      run({ maxSteps: 5 }),
      'InvalidOption: Agent: "maxSteps" is not an option. Options: prompt, toolkit, maxTurns, maxCost, limits, loops, tokenBudget, toolTimeout, toolConcurrency, midStream, approve, hooks, cancel, compaction'
    ],
    [
      "has a text as maxTurns",
      run({ maxTurns: "ten" }),
      'InvalidOption: Agent: maxTurns must be an integer of at least 1, got "ten"'
    ],
    [
      "has a text as maxCost",
      run({ maxCost: "1 dollar" }),
      'InvalidOption: Agent: maxCost must be above 0 US dollars, got "1 dollar"'
    ],
    [
      "has a time that does not parse",
      run({ toolTimeout: "2 mins" }),
      'InvalidOption: Agent: toolTimeout must be a duration, for example "5 seconds", got "2 mins"'
    ],
    [
      "has a midStream that does not exist",
      run({ midStream: "retry" }),
      'InvalidOption: Agent: midStream must be "continue" or "fail" or "restart", got "retry"'
    ],
    [
      "has `true` as approve",
      run({ approve: true }),
      'InvalidOption: Agent: approve must be a function (call) => Effect<boolean>, or "suspend", got true'
    ],
    [
      "has `true` as compaction",
      run({ compaction: true }),
      "InvalidOption: Agent: compaction must be false, or options such as { window: 200_000 }, got true"
    ],
    [
      "has an unknown option of compaction",
      run({ compaction: { maxTokens: 1_000 } }),
      'InvalidOption: Agent: "compaction.maxTokens" is not an option. Options: window, pinned, required, summarise'
    ],
    [
      "has a message in place of a function as pinned",
      run({ compaction: { pinned: [Prompt.make("x")] } }),
      "InvalidOption: Agent: compaction.pinned must be a function (message) => boolean, got a list of 1"
    ],
    [
      "streams with an unknown option",
      () => Agent.stream(untyped({ prompt: "x", maxRetries: 1 })),
      'InvalidOption: Agent: "maxRetries" is not an option. Options: prompt, toolkit, maxTurns, maxCost, limits, loops, tokenBudget, toolTimeout, toolConcurrency, midStream, approve, hooks, cancel, compaction'
    ],
    [
      "has no model",
      run({}),
      "MissingService: LanguageModel is not provided. Provide Failover.layer([...])."
    ],
    [
      "streams without a model",
      () => Agent.stream(untyped({ prompt: "x" })),
      "MissingService: LanguageModel is not provided. Provide Failover.layer([...])."
    ]
  ])
})

describe("rejects compaction that", () => {
  const { defaults } = CompactionPolicy
  const made = (options: unknown) => () => Compaction.layer(untyped(options))
  const withPolicy = (changes: object) => made({ policy: { ...defaults, ...changes } })
  const fitted =
    (request: unknown, prompt: unknown = Prompt.make("x")) =>
    () =>
      Compaction.fit(untyped(prompt), untyped(request)).pipe(Effect.provide(Compaction.layer()))
  refuses([
    [
      "has an unknown option",
      made({ threshold: 0.8 }),
      'InvalidOption: Compaction: "threshold" is not an option. Options: policy, summariser, prepare, store, maxConversations'
    ],
    [
      "has a policy by name",
      made({ policy: "codebuddy" }),
      'InvalidOption: Compaction: policy must be a policy, for example { ...CompactionPolicy.defaults, act: 0.8 }, got "codebuddy"'
    ],
    [
      "has a part of a policy",
      made({ policy: { act: 0.8 } }),
      'InvalidOption: Compaction: policy must be a policy, for example { ...CompactionPolicy.defaults, act: 0.8 }, got {"act":0.8}'
    ],
    [
      "has an unknown field of the policy",
      withPolicy({ window: 1_000 }),
      'InvalidOption: CompactionPolicy: "window" is not an option. Options: warn, act, reserve, maxAnswer, downTo, maxResult, tail, tiers, minMessages, large, chunks, messages, plain, thrash, maxReactive, wording'
    ],
    [
      "has one tier in place of a list",
      withPolicy({ tiers: "plain" }),
      'InvalidOption: CompactionPolicy: tiers must be a list of tiers, got "plain"'
    ],
    [
      "has an unknown tier",
      withPolicy({ tiers: ["drop"] }),
      'InvalidOption: CompactionPolicy: tiers[0] must be "cap" or "strip" or "chunks" or "half" or "plain", got "drop"'
    ],
    [
      "has a tail that is a number",
      withPolicy({ tail: 4 }),
      "InvalidOption: CompactionPolicy: tail must be { messages } or { tokens }, got 4"
    ],
    [
      "has a tail of both kinds",
      withPolicy({ tail: { messages: 4, tokens: 1_000 } }),
      'InvalidOption: CompactionPolicy: tail must be { messages } or { tokens }, got {"messages":4,"tokens":1000}'
    ],
    [
      "has a tail by turns",
      withPolicy({ tail: { turns: 4 } }),
      'InvalidOption: CompactionPolicy: "tail.turns" is not an option. Options: messages, tokens'
    ],
    [
      "has a percentage in place of a share",
      withPolicy({ act: 90 }),
      "InvalidOption: CompactionPolicy: act must be a finite number from 0.01 to 1, got 90"
    ],
    [
      "has a wording that is a text",
      withPolicy({ wording: { ...defaults.wording, plain: "gone" } }),
      'InvalidOption: CompactionPolicy: wording.plain must be a function that gives a text, got "gone"'
    ],
    [
      "has a model in place of options",
      () =>
        Effect.flatMap(Effect.provide(Effect.service(LanguageModel.LanguageModel), model), (summariser) =>
          Compaction.make(untyped({ summariser }))
        ),
      "InvalidOption: Compaction: summariser must be options such as { model }, got a LanguageModel"
    ],
    [
      "has the name of a summariser",
      made({ summariser: { model: "haiku" } }),
      'InvalidOption: Compaction: summariser.model must be a LanguageModel, as `yield* LanguageModel.LanguageModel` gives it, or a Layer of one, got "haiku"'
    ],
    [
      "has a store that was not called",
      made({ store: RecallStore.memory }),
      "InvalidOption: Compaction: store must be a RecallStore, for example RecallStore.memory(), got a function"
    ],
    [
      "has a text as prepare",
      made({ prepare: "yes" }),
      'InvalidOption: Compaction: prepare must be true or false, got "yes"'
    ],
    ["fits without a window", fitted({}), "InvalidOption: Compaction: window is missing"],
    [
      "fits with a misspelt window",
      fitted({ contextWindow: 1_000 }),
      'InvalidOption: Compaction: "contextWindow" is not an option. Did you mean window? Options: window, outputLimit, modelWindow, tools, model, bindsThinking, pinned, required, conversation'
    ],
    [
      "fits a text",
      fitted({ window: 1_000 }, "x"),
      "InvalidOption: Compaction: prompt must be a Prompt, as Prompt.make gives it, got a text"
    ],
    [
      "fits with a toolkit",
      fitted({ window: 1_000, tools: Toolkit.make(Tool.make("look")) }),
      "InvalidOption: Compaction: tools must be a list of tools, got a Toolkit"
    ],
    [
      "fits without a layer",
      () => Compaction.fit(Prompt.make("x"), { window: 1_000 }),
      "MissingService: Compaction is not provided. Provide Compaction.layer()."
    ],
    [
      "summarises without a model",
      () => Compaction.layerModel(),
      "MissingService: LanguageModel is not provided. Provide Failover.layer([...])."
    ],
    [
      "keeps texts by an unknown bound",
      () => RecallStore.memory(untyped({ max: 10 })),
      'InvalidOption: RecallStore: "max" is not an option. Options: maxTexts, maxCharacters'
    ],
    [
      "recalls from a map",
      () => Recall.layer(untyped(new Map())),
      "InvalidOption: Recall: store must be a RecallStore, for example RecallStore.memory(), got an instance of Map"
    ],
    [
      "recalls with a wording in part",
      () => Recall.layer(RecallStore.memory(), untyped({ wording: { more: () => "" } })),
      "InvalidOption: Recall: wording.unknown is missing"
    ],
    [
      "counts with a number",
      () => TokenCounter.make(untyped({ text: 4 })),
      "InvalidOption: TokenCounter: text must be a function (text) => tokens, got 4"
    ],
    [
      "has windows in a table in place of a function",
      () => ContextWindows.layer(untyped({ "gpt-5.1": 400_000 })),
      'InvalidOption: ContextWindows: known must be a function (model) => tokens, or undefined where it is not known, got {"gpt-5.1":400000}'
    ]
  ])
})

describe("rejects a limiter that", () => {
  const withPermit = (request: unknown) => () =>
    CallLimiter.withPermit(untyped(request), () => Effect.void).pipe(
      Effect.provide(CallLimiter.layer({ limits: { "vendor/m": { concurrency: 1 } } }))
    )
  const request = { target, tokens: 1, maxWait: 0 }
  refuses([
    [
      "has an unknown option",
      () => CallLimiter.layer(untyped({ rpm: 50 })),
      'InvalidOption: CallLimiter: "rpm" is not an option. Options: limits, store'
    ],
    [
      "has limits without a model",
      () => CallLimiter.layer(untyped({ limits: { requestsPerMinute: 50 } })),
      "InvalidOption: CallLimiter: limits.requestsPerMinute must be limits of a provider/model, for example { requestsPerMinute: 50 }, got 50"
    ],
    [
      "has an unknown limit",
      () => CallLimiter.layer(untyped({ limits: { "vendor/m": { rpm: 50 } } })),
      'InvalidOption: CallLimiter: "limits.vendor/m.rpm" is not an option. Options: concurrency, requestsPerMinute, tokensPerMinute'
    ],
    [
      "has the Effect of a store",
      () => CallLimiter.layer(untyped({ store: LimitStore.make() })),
      "InvalidOption: CallLimiter: store must be a LimitStore, as LimitStore.make gives it, got an Effect"
    ],
    [
      "is asked for a target by name",
      withPermit({ ...request, target: "vendor/m" }),
      'InvalidOption: CallLimiter: target must be the TargetRef of a target, got "vendor/m"'
    ],
    [
      "is asked with a wait that does not parse",
      withPermit({ ...request, maxWait: "soon" }),
      'InvalidOption: CallLimiter: maxWait must be a duration, for example "5 seconds", got "soon"'
    ],
    [
      "is asked with an unknown priority",
      withPermit({ ...request, priority: "high" }),
      'InvalidOption: CallLimiter: priority must be "interactive" or "background", got "high"'
    ],
    [
      "is asked inside an unknown priority",
      () => withPermit(request)().pipe(Effect.provideService(Priority.Priority, untyped("high"))),
      'InvalidOption: CallLimiter: priority must be "interactive" or "background", got "high"'
    ],
    [
      "is not provided",
      () => CallLimiter.withPermit(request, () => Effect.void),
      "MissingService: CallLimiter is not provided. Provide CallLimiter.layer()."
    ],
    [
      "has a store with an unknown option",
      () => LimitStore.make(untyped({ ttl: "1 minute" })),
      'InvalidOption: LimitStore: "ttl" is not an option. Options: timeout'
    ],
    [
      "has a store without effect's",
      () => LimitStore.make(),
      "MissingService: RateLimiter is not provided. Provide RateLimiter.layer."
    ]
  ])
})

describe("rejects a resilient toolkit that", () => {
  const Kit = Toolkit.make(Tool.make("look").annotate(Tool.Readonly, true), Tool.make("pay"))
  const kit = (policy: object) => () => Resilient.toolkit(Kit, untyped(policy))
  refuses([
    [
      "is a list",
      () => Resilient.toolkit(untyped([Tool.make("look")])),
      "InvalidOption: Resilient.toolkit: toolkit must be a Toolkit, for example Toolkit.make(tool), got a list of 1"
    ],
    [
      "has an unknown option",
      kit({ retries: 3 }),
      'InvalidOption: Resilient.toolkit: "retries" is not an option. Options: timeout, classify, retry, circuits, tools'
    ],
    [
      "has a time that does not parse",
      kit({ timeout: "20 secs" }),
      'InvalidOption: Resilient.toolkit: timeout must be a duration, for example "5 seconds", got "20 secs"'
    ],
    [
      "retries a number of times",
      kit({ retry: 3 }),
      "InvalidOption: Resilient.toolkit: retry must be false, or a policy such as { attempts: 3 }, got 3"
    ],
    [
      "has an unknown option of its retries",
      kit({ retry: { times: 3 } }),
      'InvalidOption: Resilient.toolkit: "retry.times" is not an option. Options: attempts, attemptsPerClass, backoff, retryAfter, maxRetryAfter, deadline'
    ],
    [
      "has a backoff in words",
      kit({ retry: { backoff: "exponential" } }),
      'InvalidOption: Resilient.toolkit: retry.backoff must be a Backoff, for example Backoff.exponential(), got "exponential"'
    ],
    [
      "has a tool that does not exist",
      kit({ tools: { fly: {} } }),
      "InvalidOption: Resilient.toolkit: tools.fly is not a tool of the toolkit. Tools: look, pay"
    ],
    [
      "has an unknown option of a tool",
      kit({ tools: { look: { limit: "1 second" } } }),
      'InvalidOption: Resilient.toolkit: "tools.look.limit" is not an option. Options: timeout, circuit, classify, retry'
    ],
    [
      "retries a tool that is not repeatable",
      kit({ tools: { pay: { retry: { attempts: 2 } } } }),
      "InvalidOption: Resilient.toolkit: tools.pay.retry needs a tool that is annotated as Tool.Readonly or Tool.Idempotent"
    ],
    [
      "has a circuit that is on",
      kit({ tools: { look: { circuit: true } } }),
      "InvalidOption: Resilient.toolkit: tools.look.circuit must be false, or the name of a circuit, got true"
    ],
    [
      "has no breaker",
      () => Layer.provide(Resilient.toolkit(Kit), untyped(Layer.empty)),
      "MissingService: CircuitBreaker is not provided. Provide CircuitBreaker.layer()."
    ]
  ])
})

describe("rejects a resilient embedding that", () => {
  const embeds: EmbeddingModel.EmbeddingModel = untyped({ embed: {}, embedMany: {}, resolver: {} })
  refuses([
    [
      "is a Layer",
      () => Resilient.embedding(untyped(Layer.empty)),
      "InvalidOption: Resilient.embedding: model must be an EmbeddingModel, as EmbeddingModel.make gives it, got a Layer"
    ],
    [
      "has an unknown option",
      () => Resilient.embedding(embeds, untyped({ retries: 3 })),
      'InvalidOption: Resilient.embedding: "retries" is not an option. Options: attempts, attemptsPerClass, backoff, retryAfter, maxRetryAfter, deadline, provider, timeout, circuit'
    ],
    [
      "has a time that does not parse",
      () => Resilient.embedding(embeds, untyped({ timeout: "1 min" })),
      'InvalidOption: Resilient.embedding: timeout must be a duration, for example "5 seconds", got "1 min"'
    ],
    [
      "has no breaker",
      () => Resilient.embedding(embeds),
      "MissingService: CircuitBreaker is not provided. Provide CircuitBreaker.layer()."
    ],
    [
      "has no model",
      () => Resilient.layerEmbedding(),
      "MissingService: EmbeddingModel is not provided. Provide the layer of your provider's embedding model."
    ]
  ])
})

describe("rejects a preset that", () => {
  refuses([
    [
      "has an unknown setting",
      () => Presets.codebuddy.withSettings(untyped({ maxEvents: 5_000 })),
      'InvalidOption: Codebuddy: "maxEvents" is not an option. Options: maxEventCount, maxToolInvocations, maxDurationMinutes'
    ],
    [
      "has a setting out of its range",
      () => Presets.codebuddy.withSettings({ maxEventCount: 1 }),
      "InvalidOption: Codebuddy: maxEventCount must be an integer from 500 to 10000, got 1"
    ],
    [
      "has retries in words",
      () => Presets.codebuddy.withRetries(untyped("twice")),
      'InvalidOption: Codebuddy: maxRetries must be an integer of at least 0, got "twice"'
    ],
    [
      "has fallbacks in a list",
      () => Presets.s11.withFallback(untyped(["m2"])),
      "InvalidOption: S11: models[0] must be a text that is not empty, got a list of 1"
    ],
    [
      "has keys by name",
      () => Presets.claw0.runCap(untyped(["A_KEY"])),
      "InvalidOption: Claw0: keys must be an integer of at least 0, got a list of 1"
    ]
  ])
})

describe("rejects a requirement of a tool that", () => {
  const requires = (needs: unknown) => () => Requirements.requires(Tool.make("look"), untyped(needs))
  refuses([
    ["is a variable", requires("HOME"), 'InvalidOption: Requirements: options must be an object, got "HOME"'],
    [
      "is one variable in place of a list",
      requires({ env: "HOME" }),
      'InvalidOption: Requirements: env must be a list of names of variables, got "HOME"'
    ],
    [
      "is a function",
      requires({ check: () => true }),
      "InvalidOption: Requirements: check must be an Effect, got a function"
    ],
    [
      "has an unknown kind",
      requires({ commands: ["git"] }),
      'InvalidOption: Requirements: "commands" is not an option. Options: env, check'
    ],
    [
      "is invalid at discovery",
      () => Requirements.discover(untyped([{ name: "a", requires: { env: "HOME" } }])),
      'InvalidOption: Requirements: env must be a list of names of variables, got "HOME"'
    ]
  ])
})

describe("rejects an inbound event that", () => {
  const accept = (event: unknown) => () =>
    Effect.flatMap(Inbound.make, (inbound) => inbound.accept(untyped(event)))
  refuses([
    [
      "is a text",
      accept("hello"),
      "InvalidOption: Inbound: event must be an object with text or media, got a text"
    ],
    [
      "has a number as its text",
      accept({ text: 5 }),
      "InvalidOption: Inbound: event.text must be a text, got 5"
    ],
    [
      "has media that are not a list",
      accept({ media: "photo.png" }),
      'InvalidOption: Inbound: event.media must be a list, got "photo.png"'
    ]
  ])
})

describe("rejects a guarded model that", () => {
  refuses([
    [
      "is outside of the guarded run",
      () => Layer.provide(untyped(SafetyGuard.layerModel), model),
      "MissingService: SafetyGuard is not provided. Provide this inside of SafetyGuard.run({ … })."
    ],
    [
      "has no model below it",
      () => SafetyGuard.layerModel,
      "MissingService: LanguageModel is not provided. Provide the layer that SafetyGuard.layerModel guards."
    ]
  ])
})

describe("rejects a guard that", () => {
  const run = (options: object) => () => SafetyGuard.run(untyped(options))
  refuses([
    [
      "runs a promise",
      () => SafetyGuard.run()(untyped(Promise.resolve())),
      "InvalidOption: SafetyGuard: program must be an Effect, got a promise"
    ],
    [
      "runs a promise for a host",
      () => Effect.flatMap(SafetyGuard.make(), (host) => host.run(untyped(Promise.resolve()))),
      "InvalidOption: SafetyGuard: program must be an Effect, got a promise"
    ],
    [
      "runs an Effect as a stream",
      () => SafetyGuard.runStream()(untyped(Effect.void)),
      "InvalidOption: SafetyGuard: program must be a Stream, got an Effect"
    ],
    [
      "has a loop detector that is on",
      run({ loops: true }),
      `InvalidOption: SafetyGuard: loops must be false, or "strict", "soft", "tell", or options such as { acts: { block: 3 } }, got true`
    ],
    [
      "has an unknown pattern of loops",
      run({ loops: { repeats: { block: 3 } } }),
      'InvalidOption: LoopDetector: "repeats" is not an option. Options: mode, acts, reads, waits, cycle, failures, findings, text, refusals, repetition, wording, tools'
    ],
    [
      "has a number in place of a ladder",
      run({ loops: { acts: 3 } }),
      "InvalidOption: LoopDetector: acts must be an object, got 3"
    ],
    [
      "has a ladder with an unknown rung",
      run({ loops: { acts: { warn: 2 } } }),
      'InvalidOption: LoopDetector: "acts.warn" is not an option. Options: nudge, block'
    ],
    [
      "has a tool of an unknown nature",
      () => LoopDetector.make(untyped({ tools: { look: { nature: "readonly" } } })),
      'InvalidOption: LoopDetector: tools.look.nature must be "read" or "act" or "pause", got "readonly"'
    ],
    [
      "has a tool whose identity is a field",
      () => LoopDetector.make(untyped({ tools: { look: { identity: "path" } } })),
      'InvalidOption: LoopDetector: tools.look.identity must be a function (args) => unknown, got "path"'
    ],
    [
      "has a wording that is a text",
      () => LoopDetector.make(untyped({ wording: "stop" })),
      'InvalidOption: LoopDetector: wording must be a function (step, evidence) => string, got "stop"'
    ],
    [
      "has `true` as permit",
      run({ permit: true }),
      `InvalidOption: SafetyGuard: permit must be a function (call) => Effect<"allow" | { refuse: string }>, got true`
    ],
    [
      "has a file in place of a function",
      run({ fileOf: "a.txt" }),
      'InvalidOption: SafetyGuard: fileOf must be a function (call) => string | string[] | undefined, got "a.txt"'
    ],
    [
      "has an unknown text",
      run({ texts: { blocked: "no" } }),
      'InvalidOption: SafetyGuard: "texts.blocked" is not an option. Options: stopped, interrupted, notRun, refused'
    ],
    [
      "has a text where a function belongs",
      run({ texts: { refused: "no" } }),
      'InvalidOption: SafetyGuard: texts.refused must be a function (call) => string, got "no"'
    ]
  ])
})
