/**
 * The model of the chat under one preset: its chain, its circuits and its compaction, built together.
 *
 * Circuits have short names, `anthropic` and `anthropic/claude-sonnet-4-5`, so that they can be typed. Those of
 * decision037 are named after their endpoints; {@link circuitNamed} also finds one by its provider.
 */
import { Cause, Context, Effect, Exit, Layer, Option, Scope } from "effect"
import type { Config } from "effect"
import { Agent, Compaction, Presets } from "@outlast/agent"
import type { Failover, SafetyGuard } from "@outlast/agent"
import { Permits, Targets } from "@outlast/agent/failover"
import type { Chain as Chains } from "@outlast/agent/failover"
import type { TargetRef } from "@outlast/agent/conversation"
import { CircuitBreaker, ResilienceEvents } from "@outlast/resilience"
import type { Preset } from "../explain/PresetName.ts"
import { presets } from "../explain/Preset.ts"
import type { Chain } from "./FakeChain.ts"

const { background, claw0, codebuddy, decision037, interactive, nexo, s11 } = Presets

type BuildError = Chains.ChainError | Config.ConfigError

interface Parts {
  readonly breaker?: CircuitBreaker.Service
  readonly circuitsOf: (target: TargetRef.TargetRef) => Permits.Circuits
}

type EventLines = typeof s11.lines

interface Definition {
  readonly layer: (chain: Chain, parts: Parts) => Layer.Layer<Failover.Provided, BuildError>
  readonly guard: SafetyGuard.Options
  /** The lines of its log. */
  readonly lines?: EventLines
  /** Turns of a run for a number of keys of the first model. Default: those of `Agent`. */
  readonly maxTurns?: (keys: number) => number
}

const shipped: Readonly<Record<Preset, Definition>> = {
  interactive: { layer: interactive.layer, guard: interactive.limits },
  background: { layer: background.layer, guard: background.limits },
  codebuddy: {
    layer: codebuddy.layer,
    guard: { ...codebuddy.limits, texts: codebuddy.texts },
    lines: codebuddy.lines,
    maxTurns: () => codebuddy.limits.turns
  },
  decision037: {
    layer: (chain, { breaker }) => decision037.layer(chain, { breaker }),
    guard: {},
    lines: decision037.lines
  },
  s11: { layer: s11.layer, guard: {}, lines: s11.lines },
  nexo: { layer: (chain, parts) => nexo.layer(chain, parts), guard: {} },
  claw0: { layer: claw0.layer, guard: {}, lines: claw0.lines, maxTurns: claw0.runCap }
}

/** What a preset needs to be used, once it is built. */
export interface Model {
  readonly preset: Preset
  readonly context: Context.Context<Failover.Provided>
  readonly targets: Context.Service.Shape<typeof Targets.Targets>
  /** Absent for a preset without compaction. */
  readonly compaction: Compaction.Service | undefined
  /** Absent for a preset without circuits. */
  readonly breaker: CircuitBreaker.Service | undefined
  /** Names of all circuits. */
  readonly circuits: ReadonlyArray<string>
  /** What `/reset` takes: `all`, and the names of targets, keys, providers and circuits. */
  readonly names: ReadonlyArray<string>
  /** The circuit of that name, or the one of all calls to the provider of that name. */
  readonly circuitNamed: (name: string) => string | undefined
  readonly guard: SafetyGuard.Options
  readonly maxTurns: number
  readonly close: Effect.Effect<void>
}

const shortNames = ({ provider, model }: TargetRef.TargetRef): Permits.Circuits => ({
  endpoint: provider,
  model: `${provider}/${model}`
})

const namesOf: { readonly [P in Preset]?: (target: TargetRef.TargetRef) => Permits.Circuits } = {
  nexo: nexo.circuitsOf,
  decision037: Permits.circuitsOf
}

/** Says why a preset cannot be built over the chain. */
export const problemOf = (preset: Preset, cause: Cause.Cause<unknown>): string => {
  const error = Cause.squash(cause)
  const advice = preset === "s11" ? " Set FALLBACK_MODEL_ID to a model of the chain, or unset it." : ""
  return `Preset ${preset} cannot be used. ${error instanceof Error ? error.message : String(error)}.${advice}`
}

/** Writes the lines of the preset's own log, until the scope ends. */
const writing = (
  lines: EventLines,
  note: (line: string) => Effect.Effect<void>
): Effect.Effect<void, never, Scope.Scope> => {
  const lineOf = lines()
  let failed: Parameters<ReturnType<EventLines>>[1]
  return ResilienceEvents.tap((published) => {
    // Lines ignore the tags of other packages, so the cast is safe.
    const event = published as unknown as Parameters<ReturnType<EventLines>>[0]
    if (event._tag === "AttemptFailed") failed = event
    const line = lineOf(event, failed)
    return line === undefined ? Effect.void : note(line.text)
  })
}

/** Builds a preset over the chain. `note` gets the lines of the preset's own log. The caller closes it. */
export const build = (
  preset: Preset,
  chain: Chain,
  note: (line: string) => Effect.Effect<void>
): Effect.Effect<Model, BuildError> =>
  Effect.gen(function* () {
    const scope = yield* Scope.make()
    const { layer, guard, lines, maxTurns } = shipped[preset]
    const { circuits } = presets[preset]
    const circuitsOf = namesOf[preset] ?? shortNames
    const breaker =
      circuits === false ? undefined : yield* CircuitBreaker.make(circuits).pipe(Scope.provide(scope))
    const parts = breaker === undefined ? { circuitsOf } : { circuitsOf, breaker }
    if (lines !== undefined) yield* Scope.provide(writing(lines, note), scope)
    const context = yield* Layer.buildWithScope(layer(chain, parts), scope).pipe(
      Effect.onExit((exit) => (Exit.isSuccess(exit) ? Effect.void : Scope.close(scope, exit)))
    )
    const targets = Context.get(context, Targets.Targets)
    const refs = (yield* targets.list).map(({ target }) => target)
    const circuitNames =
      breaker === undefined
        ? []
        : [...new Set(refs.map(circuitsOf).flatMap(({ endpoint, model }) => [endpoint, model]))]
    const [first] = refs
    const keys = refs.filter(({ provider, model }) => provider === first?.provider && model === first.model)
    return {
      preset,
      context,
      targets,
      compaction: Option.getOrUndefined(Context.getOption(context, Compaction.Compaction)),
      breaker,
      circuits: circuitNames,
      names: [
        ...new Set(["all", ...refs.flatMap(({ id, key, provider }) => [id, key, provider]), ...circuitNames])
      ],
      circuitNamed: (name) => {
        if (breaker === undefined || circuitNames.includes(name)) return breaker && name
        const ref = refs.find(({ provider }) => provider === name)
        return ref && circuitsOf(ref).endpoint
      },
      guard,
      maxTurns: maxTurns?.(keys.length) ?? Agent.defaults.maxTurns,
      close: Scope.close(scope, Exit.void)
    }
  })
