/**
 * Layer 4: keeps a conversation within the context window of its model.
 *
 * {@link Service.fit} returns a prompt that fits, or fails and names the parts that cannot be cut. It works on any
 * effect/ai `Prompt`, with or without the rest of Outlast. Tiers, thresholds and texts are set by a
 * `CompactionPolicy`. The summarising model is optional: without one, only the tiers that need no model run.
 *
 * **States** of a conversation: it fits (below 80 % nothing happens) · it is filling (an event, an exact count, and a
 * summary in the background with `prepare`) · it is full (it is compacted, one compaction at a time) · it is
 * exhausted (compaction no longer helps: `ContextExhausted`).
 *
 * **Invariants.** Tool calls and their results stay pairs. System messages, pinned messages, the first user message
 * and the protected tail do not change, with three exceptions: results larger than 30 % of the window are cut,
 * results are cut together when what must stay does not fit, and thinking that its model binds to earlier messages
 * (`bindsThinking`) is removed whole. The returned prompt is smaller than before and under the limit; a prompt that
 * fits is returned as the same object. A failed or interrupted compaction changes nothing.
 *
 * **Counting.** `TokenCounter` counts, and reported usage corrects it: {@link Service.learn}. When a provider rejects
 * a request and names its limit, `ContextWindows` remembers the limit for later calls of that model.
 *
 * **What it does not do.** It calls no model except the summariser, does not ask a provider for its window, and does
 * not make a conversation legal for another provider: `Portable` does. The tiers are in files of their own. The service,
 * its layers and the functions for users stand here together, in one file of over 600 lines.
 *
 * **Example** (Before each call)
 *
 * ```ts
 * const { prompt, report } = yield* Compaction.fit(history, { window: 200_000, outputLimit: 8_000, tools })
 *
 * program.pipe(Effect.provide(Compaction.layer({ summariser: { model: Failover.layer([sonnet]) } })))
 * ```
 *
 * **Example** (When a provider of a chain rejects the prompt as too long)
 *
 * ```ts
 * const compaction = yield* Compaction.make({ summariser: { model: haiku } })
 * Failover.layer(chain, { compact: Compaction.reactive(compaction, { window: 200_000 }) })
 * ```
 */
import { Clock, Config, Context, Effect, Exit, FiberMap, Layer, Option, Ref, Semaphore } from "effect"
import type { Scope } from "effect"
import { LanguageModel, Prompt } from "effect/ai"
import type { Chat, Tool } from "effect/ai"
import { Deadline, EventDefinition, ResilienceEvents } from "@outlast/resilience"
import { MissingService, Options as Check } from "@outlast/resilience"
import { failureOf } from "../failure/reasons/CallFailed.ts"
import type { Compact } from "../failover/chain/Chain.ts"
import * as ConversationKey from "../failover/call/ConversationKey.ts"
import * as Classifier from "../failure/Classifier.ts"
import type { ContextOverflow } from "../failure/reasons/FailoverReason.ts"
import type { ProviderFailure } from "../failure/reasons/ProviderFailure.ts"
import type { Request as Measurable } from "./Beginnings.ts"
import { Calibrations } from "./Calibrations.ts"
import { CannotFit, ContextExhausted } from "./CompactionError.ts"
import type { CompactionEvent, ContextCompacted } from "./CompactionEvent.ts"
import { definitions } from "./CompactionEvent.ts"
import type { CompactionPolicy } from "./CompactionPolicy.ts"
import * as Policies from "./CompactionPolicy.ts"
import { ContextWindows } from "./ContextWindows.ts"
import type { Conversation } from "./Conversations.ts"
import { Conversations, make as makeConversation } from "./Conversations.ts"
import * as Edit from "./Edit.ts"
import type { Fitted } from "./Fitting.ts"
import * as Fitting from "./Fitting.ts"
import * as Identifiers from "./Identifiers.ts"
import * as Layout from "./Layout.ts"
import * as Memory from "./Memory.ts"
import type { RecallStore } from "./RecallStore.ts"
import { check as isStore } from "./RecallStore.ts"
import * as Kind from "../options/Kind.ts"
import * as Spans from "../telemetry/Spans.ts"
import * as Summarisers from "./Summariser.ts"
import type { Meter } from "./TokenCounter.ts"
import { TokenCounter } from "./TokenCounter.ts"
import * as Thrash from "./Thrash.ts"
import type { Cut } from "./Trim.ts"
import type { Bounds, Room, Sizes } from "./Window.ts"
import * as Window from "./Window.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

export interface Options<E = never, R = never> {
  /**
   * Default `CompactionPolicy.defaults`. A function is asked before each use, so that the policy can change while the
   * program runs. What is known of the conversations stays.
   */
  readonly policy?: CompactionPolicy | (() => CompactionPolicy) | undefined
  /** Model that summarises, and its bounds. Default: none; only the tiers that need no model run. */
  readonly summariser?: Summarisers.Options<E, R> | undefined
  /** Prepares a summary in the background when the window is getting full. Default false. */
  readonly prepare?: boolean | undefined
  /** Keeps the texts that are cut, for the tool `recall`. Default: none; cut texts are lost. */
  readonly store?: RecallStore | undefined
  /** Number of conversations that are remembered. Default {@link defaults}`.maxConversations`: 1,000. */
  readonly maxConversations?: number | undefined
}

export const defaults = { maxConversations: 1_000 } as const

/** The window and other constraints that a conversation must fit into. */
export interface Request extends Room {
  /** Tools that the call offers. Default: no tools. */
  readonly tools?: ReadonlyArray<Tool.Any> | undefined
  /** Name of the model, for the counter. Default: unknown. */
  readonly model?: string | undefined
  /**
   * True when the model rejects thinking whose earlier messages were edited: `ModelInfo.capabilities`. Default false.
   */
  readonly bindsThinking?: boolean | undefined
  /** Selects messages that must stay, in addition to those marked with `Marks.pin`. Default: none. */
  readonly pinned?: ((message: Prompt.Message) => boolean) | undefined
  /** Identifiers that every summary must keep. Default: none. */
  readonly required?: ReadonlyArray<string> | undefined
  /**
   * Key that tells apart conversations with the same beginning. Default: a hash of the beginning, by
   * `ConversationKey`.
   */
  readonly conversation?: string | undefined
}

/** The usage that a provider reported for a prompt. */
export interface Usage {
  readonly prompt: Prompt.Prompt
  /** Tools that the call offered. Default: no tools. */
  readonly tools?: ReadonlyArray<Tool.Any> | undefined
  /** Name of the model, as in {@link Request}. Default: unknown. */
  readonly model?: string | undefined
  /** All input tokens that the provider reported, including cached ones. */
  readonly inputTokens: number
}

/** The sizes that a provider named when it rejected a prompt as too long. */
export type Overflow = Pick<ContextOverflow, "limit" | "requested" | "output">

export interface Service {
  readonly policy: CompactionPolicy
  /**
   * Returns a prompt that fits. Call it once for each turn of the conversation.
   *
   * Throws an `InvalidOption` (a `RangeError`) for an impossible window or output limit.
   */
  readonly fit: (
    prompt: Prompt.Prompt,
    request: Request
  ) => Effect.Effect<Fitted, CannotFit | ContextExhausted>
  /** Returns a smaller prompt after a provider rejected this one as too long. The rejection overrules every count. */
  readonly shrink: (
    prompt: Prompt.Prompt,
    request: Request,
    overflow?: Overflow
  ) => Effect.Effect<Fitted, CannotFit | ContextExhausted>
  /** Cuts every result that is larger than the policy allows. For results that are about to enter a conversation. */
  readonly admit: (prompt: Prompt.Prompt, request: Request) => Effect.Effect<Prompt.Prompt>
  /** Corrects later counts of this model with the usage that a provider reported. */
  readonly learn: (usage: Usage) => Effect.Effect<void>
  /** What is remembered of a conversation with this model, to {@link restore} it in another process. */
  readonly remembered: (conversation: string, model: string | undefined) => Effect.Effect<Memory.Memory>
  readonly restore: (conversation: string, memory: Memory.Memory) => Effect.Effect<void>
}

export class Compaction extends Context.Service<Compaction, Service>()(
  "@outlast/agent/compaction/Compaction"
) {}

// -----------------------------------------------------------------------------
// Constructors
// -----------------------------------------------------------------------------

const module = "Compaction"

const { is } = Check

const policyNoun = "a policy, for example { ...CompactionPolicy.defaults, act: 0.8 }"

const policy: Check.Check = (module, field, value) => {
  Kind.plain(policyNoun)(module, field, value)
  // A policy with only a few fields is incomplete: it must spread another policy.
  Check.check(Kind.isObject(value) && "tiers" in value, module, field, value, policyNoun)
  // `validate` checks every field, so the cast is safe.
  Policies.validate(value as CompactionPolicy)
}

const checks: Check.Checks<Options> = {
  policy: (module, field, value) => {
    if (typeof value !== "function") policy(module, field, value)
  },
  summariser: Kind.object("options such as { model }", Summarisers.checks),
  prepare: is.flag,
  store: isStore,
  maxConversations: Kind.count
}

const requestChecks: Check.Checks<Request> = {
  window: is.required(Kind.count),
  outputLimit: is.number({ min: 0 }),
  modelWindow: is.flag,
  tools: Kind.tools,
  model: Kind.name,
  bindsThinking: is.flag,
  pinned: is.fn("(message) => boolean"),
  required: Kind.names,
  conversation: Kind.name
}

/**
 * Creates a service with its own memory. Summaries in the background end with the scope, and so does a summariser
 * that is given as a Layer.
 *
 * Throws an `InvalidOption` (a `RangeError`) for an option out of its range.
 */
export const make = <E = never, R = never>(
  options: Options<E, R> = {}
): Effect.Effect<Service, E, R | Scope.Scope> =>
  Effect.gen(function* () {
    Check.fields(module, options, checks)
    const { policy = Policies.defaults, summariser, prepare = false, store } = options
    const max = options.maxConversations ?? defaults.maxConversations
    const parts = {
      summariser: summariser === undefined ? undefined : yield* Summarisers.built(summariser),
      prepare,
      store,
      fibers: yield* FiberMap.make<string>(),
      conversations: new Conversations(max),
      calibrations: new Calibrations()
    }
    return typeof policy === "function" ? following(policy, parts) : serviceOf({ ...parts, policy })
  })

/** The layer of {@link make}. */
export const layer = <E = never, R = never>(options: Options<E, R> = {}): Layer.Layer<Compaction, E, R> =>
  Layer.effect(Compaction, make(options))

/**
 * {@link layer} with settings from `effect/Config`, such as environment variables. A field that is not named keeps its
 * default.
 *
 * **Example**
 *
 * ```ts
 * Compaction.layerConfig({ prepare: Config.Boolean("PREPARE_SUMMARIES") })
 * ```
 */
export const layerConfig = (options: Config.Wrap<Options>): Layer.Layer<Compaction, Config.ConfigError> =>
  Layer.unwrap(
    Effect.gen(function* () {
      return layer(yield* Config.unwrap<Options>(options))
    })
  )

const asking = MissingService.get(LanguageModel.LanguageModel, "LanguageModel", "Failover.layer([...])")

/** Like {@link layer}, but the surrounding `LanguageModel` summarises. */
export const layerModel = (
  options: Omit<Options, "summariser"> & {
    readonly summariser?: Omit<Summarisers.Options, "model"> | undefined
  } = {}
): Layer.Layer<Compaction, never, LanguageModel.LanguageModel> =>
  Layer.effect(
    Compaction,
    Effect.flatMap(asking, (model) => make({ ...options, summariser: { ...options.summariser, model } }))
  )

interface Parts {
  readonly policy: CompactionPolicy
  readonly summariser: Summarisers.Built | undefined
  readonly prepare: boolean
  readonly store: RecallStore | undefined
  readonly fibers: FiberMap.FiberMap<string>
  readonly conversations: Conversations
  readonly calibrations: Calibrations
}

/** A conversation and what is known of it. */
interface Case {
  readonly prompt: Prompt.Prompt
  readonly request: Request
  /** The meter as it counts, and the same meter corrected by reported usage. */
  readonly raw: Meter
  readonly meter: Meter
  readonly conversation: Conversation
  /** True inside a call of the summariser, which must not call itself. */
  readonly asking: boolean
}

/** The service under the policy of the moment. */
const following = (current: () => CompactionPolicy, parts: Omit<Parts, "policy">): Service => {
  let made: Service | undefined
  const now = (): Service => {
    const known = current()
    if (made?.policy === known) return made
    policy(module, "policy", known)
    made = serviceOf({ ...parts, policy: known })
    return made
  }
  return {
    get policy() {
      return now().policy
    },
    fit: (prompt, request) => Effect.suspend(() => now().fit(prompt, request)),
    shrink: (prompt, request, overflow) => Effect.suspend(() => now().shrink(prompt, request, overflow)),
    admit: (prompt, request) => Effect.suspend(() => now().admit(prompt, request)),
    learn: (usage) => Effect.suspend(() => now().learn(usage)),
    remembered: (conversation, model) => Effect.suspend(() => now().remembered(conversation, model)),
    restore: (conversation, memory) => Effect.suspend(() => now().restore(conversation, memory))
  }
}

const serviceOf = (parts: Parts): Service => {
  const { policy, summariser, prepare, store, fibers, conversations, calibrations } = parts

  const open = (prompt: Prompt.Prompt, request: Request, { window }: Bounds): Effect.Effect<Case> =>
    Effect.gen(function* () {
      const raw = (yield* TokenCounter).for(request.model)
      const meter = calibrations.meter(request.model, raw, window)
      const asking = yield* Summarisers.Asking
      const key = request.conversation ?? ConversationKey.of(prompt)
      const conversation = asking ? makeConversation(key) : conversations.of(key)
      return { prompt, request, raw, meter, conversation, asking }
    })

  const summariserFor = ({
    asking,
    meter,
    request
  }: Case): Effect.Effect<Summarisers.Summariser | undefined> =>
    summariser === undefined || asking
      ? Effect.succeed(undefined)
      : Effect.map(TokenCounter, (counter) => {
          const { name, window = request.window } = summariser
          const own = name === undefined ? meter : calibrations.meter(name, counter.for(name), window)
          return new Summarisers.Summariser(summariser, policy, { window: request.window, meter: own })
        })

  const within = Deadline.within(summariser?.deadline ?? Summarisers.defaults.deadline)

  const taskOf = (
    { prompt, request, meter, conversation }: Case,
    sizes: Sizes,
    summariser: Summarisers.Summariser | undefined
  ): Fitting.Task => ({
    prompt,
    policy,
    meter,
    sizes,
    pinned: request.pinned,
    required: request.required ?? [],
    bindsThinking: request.bindsThinking === true,
    refilled: Thrash.isRecent(conversation.thrash, policy.thrash),
    summariser,
    prepared: conversation.prepared,
    store
  })

  const compact = (
    known: Case,
    sizes: Sizes,
    tokens: number,
    reactive: boolean
  ): Effect.Effect<Fitted, CannotFit | ContextExhausted> => {
    const { conversation } = known
    const about = { conversation: conversation.key, tokens, window: sizes.bounds.window }
    const { thrash: rules } = policy
    return Effect.gen(function* () {
      if (Thrash.isExhausted(conversation.thrash, rules)) {
        const reason = "poor_gains"
        yield* publish({ _tag: "CompactionGaveUp", ...about, reason })
        return yield* new ContextExhausted({
          reason,
          times: conversation.thrash.poor,
          tokens,
          window: about.window,
          limit: sizes.bounds.limit,
          arithmetic: sizes.bounds.arithmetic
        })
      }
      const ended = (gain: number): void => {
        // Uses the current state: other turns may have begun during the compaction.
        conversation.thrash = Thrash.compacted(conversation.thrash, gain, rules)
        conversation.prepared = undefined
        conversation.warned = false
      }
      const failed = (tried: Fitted["report"]["tried"]) =>
        Effect.forEach(tried, ({ tier, why }) =>
          why === undefined ? Effect.void : publish({ _tag: "CompactionTierFailed", ...about, tier, why })
        )
      const fitted = yield* Fitting.run(taskOf(known, sizes, yield* summariserFor(known))).pipe(
        Effect.tapError((error) => {
          ended(0)
          return Effect.andThen(
            failed(error.tried),
            publish({ _tag: "CompactionGaveUp", ...about, reason: "cannot_fit" })
          )
        })
      )
      const { tier, tokensBefore, tokensAfter, limit, tried, summaries } = fitted.report
      ended((tokensBefore - tokensAfter) / limit)
      yield* failed(tried)
      if (tier !== "none") {
        const at = yield* Clock.currentTimeMillis
        const event: ContextCompacted = {
          _tag: "ContextCompacted",
          at,
          ...about,
          tier,
          tokensAfter,
          reactive,
          summaries
        }
        yield* EventDefinition.update(definitions.ContextCompacted, event)
        yield* ResilienceEvents.publish(event)
      }
      return fitted
    }).pipe(
      within,
      Semaphore.withPermit(conversation.lock),
      traced({
        "outlast.tokens_before": tokens,
        "outlast.window": sizes.bounds.window,
        "outlast.reactive": reactive
      })
    )
  }

  /** Summarises in the background what would be cut now, so that a later compaction finds the summary ready. */
  const prepared = (known: Case, sizes: Sizes): Effect.Effect<void> => {
    const { conversation, prompt, request } = known
    return Effect.gen(function* () {
      const asked = yield* summariserFor(known)
      const places = Fitting.placesOf(prompt, taskOf(known, sizes, asked))
      const [covers, kept] = Layout.split(places)
      if (asked === undefined || covers.length === 0) return
      const required = Identifiers.atRisk(request.required ?? [], covers, kept)
      const text = yield* asked.summary({ messages: covers, required, maxTokens: Infinity, in: "chunks" })
      conversation.prepared = { covers, text }
    }).pipe(
      // A failure here costs nothing: the compaction itself summarises again.
      Effect.ignore,
      within,
      Semaphore.withPermit(conversation.lock)
    )
  }

  const filling = (known: Case, bounds: Bounds, tokens: number): Effect.Effect<void> =>
    Effect.suspend(() => {
      const { conversation, asking } = known
      if (conversation.warned) return Effect.void
      conversation.warned = true
      const preparing = prepare && summariser !== undefined && !asking
      const { window } = bounds
      return Effect.andThen(
        publish({ _tag: "ContextFilling", conversation: conversation.key, tokens, window, preparing }),
        preparing
          ? Effect.asVoid(
              FiberMap.run(fibers, conversation.key, prepared(known, sizesOf(known, bounds, tokens)), {
                onlyIfMissing: true
              })
            )
          : Effect.void
      )
    })

  return {
    policy,
    fit: (prompt, request) =>
      Effect.gen(function* () {
        const bounds = Window.boundsOf(policy, yield* roomOf(prompt, request))
        const known = yield* open(prompt, request, bounds)
        const { conversation, raw } = known
        conversation.thrash = Thrash.turn(conversation.thrash)
        const measured = calibrations.measure(measurable(prompt, request, raw), bounds.window)
        if (measured.tokens < bounds.warn) {
          conversation.warned = false
          return asItIs(known, bounds, measured.tokens, policy)
        }
        const exact =
          raw.exact === undefined ? undefined : yield* raw.exact(prompt.content, request.tools ?? [])
        // An exact count that is unusable, or equal to the plain count, adds nothing: the calibrated count is better.
        const isFound = exact !== undefined && exact > 0 && exact < Infinity && exact !== measured.counted
        const tokens = isFound ? exact : measured.tokens
        if (tokens > bounds.limit) {
          return yield* compact(known, sizesOf(known, bounds, tokens), tokens, false)
        }
        if (tokens >= bounds.warn) yield* filling(known, bounds, tokens)
        return asItIs(known, bounds, tokens, policy)
      }),
    shrink: (prompt, request, overflow = {}) =>
      Effect.gen(function* () {
        const raw = (yield* TokenCounter).for(request.model)
        const asked = measurable(prompt, request, raw)
        const room = yield* roomOf(prompt, request)
        const { tokens } = calibrations.measure(asked, room.window)
        const { bounds, real } = Window.refused(policy, room, overflow, tokens)
        const { limit, requested, output = 0 } = overflow
        if (limit !== undefined && request.model !== undefined) {
          yield* (yield* ContextWindows).learn(request.model, limit)
        }
        if (requested !== undefined) calibrations.learn(asked, requested - output)
        const known = yield* open(prompt, request, bounds)
        return yield* compact(known, sizesOf(known, bounds, real), real, true)
      }),
    admit: (prompt, request) =>
      Effect.gen(function* () {
        const { window, downTo } = Window.boundsOf(policy, yield* roomOf(prompt, request))
        const meter = calibrations.meter(request.model, (yield* TokenCounter).for(request.model), window)
        const cuts: Array<Cut> = []
        const options = { wording: policy.wording, stored: store !== undefined }
        const max = Math.floor(policy.maxResult * window)
        const levels = Edit.turnLevels(prompt.content, downTo, meter)
        const messages = prompt.content.map((message, i) =>
          Edit.capMessage(message, Math.min(max, levels[i] ?? max), meter, options, cuts)
        )
        if (cuts.length === 0) return prompt
        yield* Fitting.keep(store, cuts)
        return Prompt.fromMessages(messages)
      }),
    learn: ({ prompt, inputTokens, ...about }) =>
      Effect.map(TokenCounter, (counter) =>
        calibrations.learn(measurable(prompt, about, counter.for(about.model)), inputTokens)
      ),
    remembered: (conversation, model) =>
      Effect.sync(() => {
        const { thrash } = conversations.of(conversation)
        const known = model === undefined ? undefined : calibrations.known(model)
        return model === undefined || known === undefined
          ? { thrash }
          : { thrash, calibration: Memory.written(model, known) }
      }),
    restore: (conversation, { thrash, calibration }) =>
      Effect.sync(() => {
        conversations.of(conversation).thrash = { ...thrash, last: thrash.last }
        if (calibration !== undefined) calibrations.restore(calibration.model, Memory.read(calibration))
      })
  }
}

/**
 * The room of a request, limited by what earlier rejections have shown. Dies with an `InvalidOption` for a wrong
 * request.
 */
const roomOf = (prompt: Prompt.Prompt, request: Request): Effect.Effect<Room> =>
  Effect.suspend(() => {
    Kind.madePrompt(module, "prompt", prompt)
    Check.fields(module, request, requestChecks)
    const { model, modelWindow, window } = request
    if (model === undefined) return Effect.succeed(request)
    return Effect.gen(function* () {
      const windows = yield* ContextWindows
      const known = modelWindow === undefined ? yield* windows.of(model) : undefined
      const own = modelWindow ?? (known !== undefined && window >= known)
      return Window.within({ ...request, modelWindow: own }, yield* windows.learned(model))
    })
  })

const measurable = (
  prompt: Prompt.Prompt,
  { model, tools = [] }: Pick<Request, "model" | "tools">,
  meter: Meter
): Measurable => ({ model, messages: prompt.content, tools, meter })

/** The bounds for a conversation with `tokens` tokens. */
const sizesOf = ({ prompt, request, meter }: Case, bounds: Bounds, tokens: number): Sizes => {
  const tools = request.tools ?? []
  return Window.sizesOf(bounds, meter.tools(tools), Fitting.tokensOf(prompt.content, tools, meter), tokens)
}

const asItIs = (
  { prompt, conversation }: Case,
  { window, limit, downTo, arithmetic }: Bounds,
  tokens: number,
  policy: CompactionPolicy
): Fitted => {
  conversation.thrash = Thrash.fits(conversation.thrash, policy.thrash)
  const summaries = Fitting.nothingSpent
  const sizes = { tokensBefore: tokens, tokensAfter: tokens, window, limit, downTo, arithmetic }
  return { prompt, report: { tier: "none", ...sizes, dropped: [], tried: [], summaries } }
}

const publish = ResilienceEvents.publishNow<CompactionEvent>

const traced =
  (attributes: Spans.Attributes) =>
  <E, R>(compacting: Effect.Effect<Fitted, E, R>): Effect.Effect<Fitted, E, R> =>
    Spans.around(
      "outlast.compaction",
      {
        attributes,
        ended: (exit) =>
          Exit.isFailure(exit)
            ? {}
            : {
                "outlast.tier": exit.value.report.tier,
                "outlast.tokens_after": exit.value.report.tokensAfter,
                "outlast.summaries": exit.value.report.summaries.calls
              },
        // Their messages have numbers only.
        messageOf: (error) =>
          error instanceof CannotFit || error instanceof ContextExhausted ? error.message : undefined
      },
      compacting
    )

// -----------------------------------------------------------------------------
// Combinators
// -----------------------------------------------------------------------------

const around = MissingService.get(Compaction, "Compaction", "Compaction.layer()")

/** {@link Service.fit} of the surrounding layer. */
export const fit = (
  prompt: Prompt.Prompt,
  request: Request
): Effect.Effect<Fitted, CannotFit | ContextExhausted, Compaction> =>
  Effect.flatMap(around, (compaction) => compaction.fit(prompt, request))

/** Makes the history of a chat fit before the next message. A history that changed meanwhile is left alone. */
export const chat = (
  chat: Chat.Chat,
  request: Request
): Effect.Effect<Fitted, CannotFit | ContextExhausted, Compaction> =>
  Effect.gen(function* () {
    const history = yield* Ref.get(chat.history)
    const fitted = yield* fit(history, request)
    yield* Ref.update(chat.history, (now) => (now === history ? fitted.prompt : now))
    return fitted
  })

/**
 * The option `compact` of `Failover.layer`, which calls it at most `policy.maxCompactions` times per call. When the
 * models of a chain differ, derive the request from the model that rejected the prompt: `failure.target`.
 */
export const reactive =
  (compaction: Service, request: Request | ((failure: ProviderFailure) => Request)): Compact =>
  (prompt, failure) => {
    const { reason } = failure
    if (reason._tag !== "ContextOverflow") return Effect.succeed(prompt)
    const asked = typeof request === "function" ? request(failure) : request
    const room = { ...asked, model: asked.model ?? failure.target?.model }
    return Effect.map(compaction.shrink(prompt, room, reason), (fitted) => fitted.prompt)
  }

/**
 * Calls any model with a prompt that fits. When the provider rejects the prompt as too long, `use` is called again
 * with a smaller one, at most `policy.maxReactive` times. With `Failover` use {@link reactive}, so that one owner
 * makes all retries.
 *
 * Returns the result of `use` and the prompt that produced it. Continue the conversation with that prompt.
 */
export const call = <A, E, R>(
  prompt: Prompt.Prompt,
  request: Request,
  use: (prompt: Prompt.Prompt) => Effect.Effect<A, E, R>
): Effect.Effect<
  { readonly value: A; readonly prompt: Prompt.Prompt },
  E | CannotFit | ContextExhausted,
  R | Compaction
> =>
  Effect.gen(function* () {
    const compaction = yield* around
    const again = (
      prompt: Prompt.Prompt,
      left: number
    ): Effect.Effect<
      { readonly value: A; readonly prompt: Prompt.Prompt },
      E | CannotFit | ContextExhausted,
      R
    > =>
      Effect.matchEffect(use(prompt), {
        onSuccess: (value) => Effect.succeed({ value, prompt }),
        onFailure: (error) =>
          Effect.gen(function* () {
            const overflow = left > 0 ? yield* overflowOf(error) : undefined
            if (overflow === undefined) return yield* Effect.fail(error)
            const smaller = yield* compaction.shrink(prompt, request, overflow)
            return yield* again(smaller.prompt, left - 1)
          })
      })
    const { prompt: fitting } = yield* compaction.fit(prompt, request)
    return yield* again(fitting, compaction.policy.maxReactive)
  })

/** The sizes that a provider named, when the prompt was rejected as too long. */
const overflowOf = (error: unknown): Effect.Effect<Overflow | undefined> =>
  Effect.gen(function* () {
    const known = Option.getOrUndefined(failureOf(error))
    const failure = known ?? (yield* Classifier.failure(error))
    return failure._tag === "ProviderFailure" && failure.reason._tag === "ContextOverflow"
      ? failure.reason
      : undefined
  })
