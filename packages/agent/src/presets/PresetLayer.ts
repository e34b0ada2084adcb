/**
 * The layer of a preset: the chain under its policy, its compaction, its alerts and its log lines.
 *
 * The lines go to the log of the call. They replace no event and no warning. A chain that shares its `ResilienceEvents`
 * with other chains also logs the events of those.
 */
import { Context, Effect, Layer, MutableRef } from "effect"
import { LanguageModel } from "effect/ai"
import type { Tool } from "effect/ai"
import type { CircuitEvent } from "@outlast/resilience"
import { Alerts, ResilienceEvents, Warnings } from "@outlast/resilience"
import * as Compaction from "../compaction/Compaction.ts"
import type { CompactionEvent } from "../compaction/CompactionEvent.ts"
import type { CompactionPolicy } from "../compaction/CompactionPolicy.ts"
import { ContextWindows } from "../compaction/ContextWindows.ts"
import type { RecallStore } from "../compaction/RecallStore.ts"
import type { Options as SummariserOptions } from "../compaction/Summariser.ts"
import * as Failover from "../failover/Failover.ts"
import type { FailoverEvent } from "../failover/FailoverEvent.ts"
import type { ChainError, Compact, NonEmpty, Services, Specs } from "../failover/chain/Chain.ts"
import * as Targets from "../failover/chain/Targets.ts"
import type { RecoveryPolicy } from "../failover/decide/RecoveryPolicy.ts"
import type { ProviderFailure } from "../failure/reasons/ProviderFailure.ts"
import * as SafetyGuard from "../guard/SafetyGuard.ts"
import * as Agent from "../loop/Agent.ts"
import type { AgentEvent } from "../loop/AgentEvent.ts"
import type { AgentFailed } from "../loop/AgentFailed.ts"
import type { Outcome } from "../loop/Outcome.ts"

// -----------------------------------------------------------------------------
// Model
// -----------------------------------------------------------------------------

/** Options of a preset's layer: those of `Failover.layer` that the preset leaves open, and those of its other parts. */
export interface Options<Class extends string> extends Omit<Failover.Options<Class>, "policy" | "compact"> {
  /** Model that summarises, and its bounds. Default: the chain itself summarises. */
  readonly summariser?: SummariserOptions | undefined
  /** Keeps the texts that compaction cuts. Default: none. */
  readonly recall?: RecallStore | undefined
  /** Called for each alert that is raised or cleared. */
  readonly onAlert?: Alerts.Options["onAlert"]
}

/** Parts of one preset. */
export interface Parts<Class extends string> {
  readonly policy: RecoveryPolicy<Class>
  readonly circuitsOf?: Failover.Options<Class>["circuitsOf"]
  readonly compaction: CompactionPolicy
  /** Prepares a summary in the background when the window is getting full. */
  readonly prepare?: boolean
  readonly alerts?: Alerts.Options
  readonly lines?: Lines
}

export type Provided = Failover.Provided | Compaction.Compaction

/** Events that a line may be about. */
type Event = AgentEvent | CircuitEvent.CircuitEvent | CompactionEvent | FailoverEvent

type AttemptFailed = Extract<FailoverEvent, { readonly _tag: "AttemptFailed" }>

/**
 * Makes the function that returns the line of an event, for one layer. `failed` is the last failure of the same call at
 * the same target.
 */
export type Lines = () => (event: Event, failed: AttemptFailed | undefined) => Warnings.Line | undefined

export const line = (level: Warnings.Line["level"], text: string): Warnings.Line => ({ level, text })

/** Milliseconds as seconds with one decimal. */
export const seconds = (millis: number): string => `${(millis / 1_000).toFixed(1)}s`

// -----------------------------------------------------------------------------
// Layers
// -----------------------------------------------------------------------------

/** Calls whose last failure is remembered for a line. */
const maxCalls = 1_000

const layerLines = (lines: Lines): Layer.Layer<never> =>
  ResilienceEvents.layerTap(
    Effect.sync(() => {
      const lineOf = lines()
      const failures = new Map<string, AttemptFailed>()
      return (published) => {
        // Lines ignore the tags of other packages, so the cast is safe.
        const event = published as unknown as Event
        const of = "call" in event && "target" in event ? `${event.call} ${event.target.id}` : undefined
        if (event._tag === "AttemptFailed" && of !== undefined) {
          failures.delete(of)
          failures.set(of, event)
          const oldest = failures.keys().next()
          if (failures.size > maxCalls && oldest.done !== true) failures.delete(oldest.value)
        }
        const said = lineOf(event, of === undefined ? undefined : failures.get(of))
        return said === undefined ? Effect.void : Warnings.write(said)
      }
    })
  )

/** The window that is assumed of an unknown model that refused a conversation, in tokens. */
const usualWindow = 200_000

const compactOf =
  (compaction: Compaction.Service, targets: Targets.Service): Compact =>
  (prompt, failure) =>
    Effect.gen(function* () {
      const windows = yield* ContextWindows
      const refused = (yield* targets.list).find(({ target }) => target.id === failure.target?.id)
      const { model = "" } = failure.target ?? {}
      const window =
        limitOf(failure) ??
        refused?.info.contextWindow ??
        (yield* windows.of(model)) ??
        // Nothing is known of this model.
        usualWindow
      return yield* Compaction.reactive(compaction, { window })(prompt, failure)
    })

const limitOf = ({ reason }: ProviderFailure): number | undefined =>
  reason._tag === "ContextOverflow" ? reason.limit : undefined

/** Builds the chain and the compaction that shortens its conversations, which may ask the chain for summaries. */
const build = <const S extends Specs, Class extends string>(
  chain: NonEmpty<S>,
  { policy, circuitsOf, compaction, prepare }: Parts<Class>,
  options: Options<Class>
) =>
  Effect.gen(function* () {
    const { summariser, recall, onAlert: _, ...failover } = options
    // Set below: the compaction may need the chain for its summaries.
    const shortening = MutableRef.make<Compact>((prompt) => Effect.succeed(prompt))
    const compact: Compact = (prompt, failure) => MutableRef.get(shortening)(prompt, failure)
    const context = yield* Layer.build(
      Failover.layer(chain, {
        ...(circuitsOf === undefined ? {} : { circuitsOf }),
        ...failover,
        policy,
        compact
      })
    )
    const made = yield* Compaction.make({
      policy: compaction,
      prepare,
      store: recall,
      summariser: summariser ?? { model: Context.get(context, LanguageModel.LanguageModel) }
    })
    MutableRef.set(shortening, compactOf(made, Context.get(context, Targets.Targets)))
    return Context.add(context, Compaction.Compaction, made)
  })

/** The chain with its compaction, without alerts and lines. */
export const chainLayer = <const S extends Specs, Class extends string>(
  chain: NonEmpty<S>,
  parts: Parts<Class>,
  options: Options<Class>
): Layer.Layer<Provided, ChainError, Services<S>> => Layer.effectContext(build(chain, parts, options))

export const layerOf = <const S extends Specs, Class extends string>(
  chain: NonEmpty<S>,
  parts: Parts<Class>,
  options: Options<Class>
): Layer.Layer<Provided, ChainError, Services<S>> =>
  chainLayer(chain, parts, options).pipe(Layer.provideMerge(telemetry(parts, options.onAlert)))

/** The alerts and lines of a preset. */
export const telemetry = (
  { alerts = {}, lines }: Pick<Parts<string>, "alerts" | "lines">,
  onAlert?: Alerts.Options["onAlert"]
): Layer.Layer<never> => {
  const raised = Alerts.layer(onAlert === undefined ? alerts : { ...alerts, onAlert })
  return lines === undefined ? raised : layerLines(lines).pipe(Layer.provideMerge(raised))
}

// -----------------------------------------------------------------------------
// Agents
// -----------------------------------------------------------------------------

/** The failures of a preset's agent. */
export type Failures<Tools extends Record<string, Tool.Any>> =
  | AgentFailed
  | Agent.ToolFailure<Tools>
  | SafetyGuard.SafetyStop

/** An agent run under the limits of a preset. */
export const guarded = <Tools extends Record<string, Tool.Any>, R>(
  limits: SafetyGuard.Options,
  options: Agent.Options<Tools, R>
): Effect.Effect<Outcome, Failures<Tools>, Agent.Services<Tools, R>> =>
  // The services of an agent do not include the guard, which `run` would exclude.
  SafetyGuard.run(limits)(Agent.run(options)) as Effect.Effect<
    Outcome,
    Failures<Tools>,
    Agent.Services<Tools, R>
  >
