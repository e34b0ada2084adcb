/**
 * Builds the targets of a chain: one per key of each entry.
 *
 * An entry that cannot be built, or a missing key, makes dead targets. Errors list them, and they are never chosen.
 * The chain fails only when every target is dead.
 */
import { Cause, Effect, MutableRef, Redacted, Schema } from "effect"
import type { Config, Scope } from "effect"
import type { Prompt } from "effect/ai"
import type { RetryBudget } from "@outlast/resilience"
import { ErrorText, InvalidOption, ResilienceEvents, Warnings } from "@outlast/resilience"
import { Options as Check } from "@outlast/resilience"
import { TargetOut } from "../../failure/reasons/CallFailure.ts"
import * as Classifier from "../../failure/Classifier.ts"
import { Auth } from "../../failure/reasons/FailoverReason.ts"
import {
  local,
  missingKey,
  ProviderFailure,
  unloadedKey,
  whatHappened,
  whatToDo
} from "../../failure/reasons/ProviderFailure.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"
import { idOf } from "../../conversation/TargetRef.ts"
import * as Builds from "./Builds.ts"
import type { TargetView } from "../decide/CallState.ts"
import * as ChainLog from "./ChainLog.ts"
import { ChainMemory } from "./ChainMemory.ts"
import type { Admission } from "./Permits.ts"
import type { TargetDead } from "./TargetEvent.ts"
import type * as CallLimiter from "../../limiter/CallLimiter.ts"
import type { ChainStore } from "./ChainStore.ts"
import * as ChainSync from "./ChainSync.ts"
import * as KeySource from "../target/KeySource.ts"
import { HedgeShare } from "./HedgeShare.ts"
import * as LiveKey from "../target/LiveKey.ts"
import * as Kind from "../../options/Kind.ts"
import type { Order } from "../decide/Order.ts"
import { wantsFacts } from "../decide/Order.ts"
import type { ProviderModel, TargetSpec } from "../target/ProviderModel.ts"
import type { RecoveryPolicy } from "../decide/RecoveryPolicy.ts"

/** A target that was built, with its model and key. */
export interface Target extends TargetView {
  readonly key: LiveKey.LiveKey | undefined
  readonly model: ProviderModel
}

/** Shortens a conversation that did not fit. Returns the same prompt when it cannot. */
export type Compact = (
  prompt: Prompt.Prompt,
  failure: ProviderFailure
) => Effect.Effect<Prompt.Prompt, unknown>

/** Parts of a chain besides its targets. */
export interface Settings {
  readonly policy: RecoveryPolicy<string>
  readonly admission: Admission | undefined
  readonly budget: RetryBudget.Service | undefined
  readonly limiter: CallLimiter.Service | undefined
  /** True when the limiter needs the token count of a call. Counting walks through the whole prompt. */
  readonly countsTokens: boolean
  readonly compact: Compact | undefined
  readonly order: Order
  readonly store: ChainStore | undefined
  /** False for a program that keeps its chains and may have several of the same targets. */
  readonly warnsOfBuilds: boolean
}

/** State that all calls of one layer share. */
export interface Chain extends Settings {
  readonly targets: readonly [Target, ...Array<Target>]
  readonly dead: ReadonlyArray<TargetOut>
  readonly memory: ChainMemory
  /** The share of calls that may be hedged; `undefined` when the policy hedges none. */
  readonly hedges: HedgeShare | undefined
  /** Number of calls begun so far. */
  readonly calls: MutableRef.MutableRef<number>
}

/** Fails the layer when no target of the chain could be built. */
export class ChainError extends Schema.TaggedError<ChainError>("@outlast/agent/failover/ChainError")(
  "ChainError",
  {
    targets: Schema.Array(TargetOut)
  }
) {
  override get message(): string {
    const lines = this.targets.map(
      ({ target, failure }) => `  ${target.id}: ${whatHappened(failure)}. ${whatToDo(failure)}`
    )
    return ["No target of the chain can be used.", ...lines].join("\n")
  }
}

ErrorText.printedOnce(ChainError)

/** The entries of a chain, in order: at least one. {@link NonEmpty} refuses the literal `[]`, and {@link build} the rest. */
export type Specs<E = unknown, R = unknown> = ReadonlyArray<TargetSpec<E, R>>

/** The entries of a chain, where a literal `[]` does not compile. A list of unknown length does: `const chain = [a, b]`. */
export type NonEmpty<S extends Specs> = S extends readonly [] ? readonly [TargetSpec] : S

/** Services that the entries of a chain need to be built. */
export type Services<S extends Specs> = S[number] extends infer Spec
  ? Spec extends TargetSpec<unknown, infer R>
    ? Exclude<R, Scope.Scope>
    : never
  : never

/** Throws an `InvalidOption` (a `RangeError`) unless the value is a target. */
export const isTarget: Check.Check = (module, field, value) => {
  if (Kind.isAiSdkModel(value)) {
    const message = `${module}: ${field} is a model of the AI SDK. Use ${fromAiSdk} of @outlast/providers.`
    throw new InvalidOption(module, field, undefined, fromAiSdk, message)
  }
  const hasParts = (value: unknown): boolean =>
    Kind.isObject(value) && "provider" in value && "build" in value && "keys" in value
  Kind.where(hasParts, targetNoun)(module, field, value)
  // `hasParts` has checked that these fields exist.
  const { provider, model, endpoint, keys, build } = value as TargetSpec<unknown, unknown>
  Kind.publicName(module, `${field}.provider`, provider)
  Kind.publicName(module, `${field}.model`, model)
  Check.check(typeof endpoint === "string", module, `${field}.endpoint`, endpoint, "a base URL, or empty")
  Kind.list(source, "a list of KeySources")(module, `${field}.keys`, keys)
  Check.is.effect(module, `${field}.build`, build)
}

const fromAiSdk = "AiSdk.model({ provider, model, create: () => model })"

const targetNoun = 'a target, for example Anthropic.model("…")'

const source = Kind.having('a KeySource, for example KeySource.env("ANTHROPIC_API_KEY")', "name", "load")

/** Throws an `InvalidOption` (a `RangeError`) unless the value is a list of at least one target. */
export const validate = (module: string, field: string, specs: unknown): void => {
  Kind.list(isTarget, `a list of targets, for example [Anthropic.model("…")]`)(module, field, specs)
  if (Array.isArray(specs) && specs.length > 0) return
  const message = `${module}: the ${field} is empty. Add a target, for example Anthropic.model("…").`
  throw new InvalidOption(module, field, undefined, "a list of at least one target", message)
}

type Built = { readonly live: Target } | { readonly dead: TargetOut }

/** Builds the chain of these entries, in their order. */
export const build = <E, R>(
  specs: Specs<E, R>,
  settings: Settings
): Effect.Effect<Chain, ChainError, R | Scope.Scope> =>
  Effect.gen(function* () {
    const ids = new Set<string>()
    const loaded: Loaded = new Map()
    const built: Array<Built> = []
    for (const spec of specs) built.push(...(yield* buildSpec(spec, ids, loaded)))
    const dead = built.flatMap((result) => ("dead" in result ? [result.dead] : []))
    for (const out of dead) yield* publishDead(out)
    const [first, ...rest] = built.flatMap((result) => ("live" in result ? [result.live] : []))
    if (first === undefined) return yield* ErrorText.brief(new ChainError({ targets: dead }), "targets")
    yield* warn(built, settings)
    const memory = new ChainMemory(first.ref, wantsFacts(settings.order), settings.policy.pacing)
    const { store } = settings
    if (store !== undefined) {
      const { cooldowns } = memory
      const targets = [first, ...rest].map(({ ref, key }) => ({ ref, key: key?.current }))
      memory.sync = yield* ChainSync.make({ store, cooldowns, targets })
    }
    const hedges = HedgeShare.of(settings.policy)
    return { ...settings, targets: [first, ...rest], dead, memory, hedges, calls: MutableRef.make(0) }
  })

/**
 * The entries that can be used: those with a key that is set, and those that need none. Keeps the order. Use it for a
 * chain from whatever keys a machine has. A key that refreshes is loaded once to find out.
 *
 * Fails with `ChainError` when no entry is left; the error names the keys of all of them.
 *
 * **Example** (Any of three providers)
 *
 * ```ts
 * const Model = Layer.unwrap(
 *   Effect.map(
 *     Chain.detect([Anthropic.model("claude-sonnet-4-5"), OpenAi.model("gpt-5.1"), Google.model("gemini-2.5-pro")]),
 *     (chain) => Failover.layer(chain)
 *   )
 * )
 * ```
 */
export const detect = <const S extends Specs>(
  offered: NonEmpty<S>
): Effect.Effect<readonly [S[number], ...Array<S[number]>], ChainError> =>
  Effect.gen(function* () {
    validate("Chain.detect", "offered", offered)
    const found: Array<S[number]> = []
    for (const spec of offered) if (yield* hasKey(spec)) found.push(spec)
    const [first, ...rest] = found
    if (first !== undefined) return [first, ...rest] as const
    const missing = offered.flatMap((spec) =>
      spec.keys.map(({ name }): TargetOut => {
        const target = refOf(spec, name, new Set())
        return { target, failure: local(missingKey, new Auth({ permanent: false }), target) }
      })
    )
    return yield* ErrorText.brief(new ChainError({ targets: missing }), "targets")
  })

const hasKey = ({ keys }: Pick<TargetSpec, "keys">): Effect.Effect<boolean> =>
  keys.length === 0
    ? Effect.succeed(true)
    : Effect.map(
        Effect.forEach(keys, ({ load }) => Effect.option(load)),
        (loaded) => loaded.some((key) => key._tag === "Some" && Redacted.value(key.value).trim() !== "")
      )

const noKey: KeySource.KeySource = { name: "", load: Effect.succeed(Redacted.make("")) }

const buildSpec = <E, R>(
  spec: TargetSpec<E, R>,
  ids: Set<string>,
  loaded: Loaded
): Effect.Effect<ReadonlyArray<Built>, never, R | Scope.Scope> =>
  Effect.gen(function* () {
    const names = new Set<string>()
    const keyed: Array<{ readonly ref: TargetRef; readonly key: LiveKey.LiveKey | ProviderFailure }> = []
    // Check names too: a target may be written by hand, and names appear in messages.
    spec.keys.forEach((key, i) => KeySource.checked("Failover.layer", `keys[${i}]`, key))
    for (const source of spec.keys.length === 0 ? [noKey] : spec.keys) {
      const ref = refOf(spec, unused(source.name, names), ids)
      keyed.push({ ref, key: yield* loadKey(source, ref, loaded) })
    }
    const values = keyed.flatMap(({ key }) => ("current" in key ? [Redacted.value(key.current)] : []))
    if (values.length === 0) return keyed.flatMap(({ ref, key }) => ("current" in key ? [] : [out(ref, key)]))

    // Build the model once for all keys. An error may quote any of the keys, so all of them are removed from it.
    const model = yield* builtOr(spec.build, (error) =>
      Classifier.failure(error, { provider: spec.provider, secrets: { values } })
    )
    return keyed.map(({ ref, key }): Built => {
      if (!("current" in key)) return out(ref, key)
      if ("_tag" in model) return out(ref, model.at(ref, { values }))
      const own = spec.keys.length === 0 ? undefined : key
      return { live: { ref, key: own, renewable: own?.renew !== undefined, model, info: model.info } }
    })
  })

const out = (target: TargetRef, failure: ProviderFailure): Built => ({ dead: { target, failure } })

const refOf = (
  { provider, model, endpoint }: Pick<TargetSpec, "provider" | "model" | "endpoint">,
  key: string,
  ids: Set<string>
): TargetRef => {
  // Keep the id unique when another endpoint has the same model and key name.
  const id = unused(idOf({ provider, model, key }), ids)
  return { id, provider, model, endpoint, key }
}

/** Returns the name, numbered if it is taken. Two keys with one name stay two keys. */
const unused = (name: string, taken: Set<string>): string => {
  let free = name
  for (let n = 2; taken.has(free); n++) free = `${name}~${n}`
  taken.add(free)
  return free
}

/** The key, or the error, of each source. Entries with the same source share its key and its refreshes. */
type Loaded = Map<KeySource.KeySource, LiveKey.LiveKey | Config.ConfigError | KeySource.KeyError>

const loadKey = (
  source: KeySource.KeySource,
  ref: TargetRef,
  loaded: Loaded
): Effect.Effect<LiveKey.LiveKey | ProviderFailure, never, Scope.Scope> =>
  Effect.gen(function* () {
    const found = loaded.get(source) ?? (yield* Effect.catch(LiveKey.make(source), Effect.succeed))
    loaded.set(source, found)
    if (found instanceof KeySource.KeyError)
      return new ProviderFailure({
        reason: new Auth({ permanent: false }),
        evidence: {
          rule: unloadedKey,
          signal: "local",
          // `Error` is the name of every plain error and carries no information.
          matched: found.error === "Error" ? undefined : found.error,
          depth: 0
        },
        target: ref,
        detail: found.message
      })
    const isThere = "current" in found && (Redacted.value(found.current).trim() !== "" || source === noKey)
    return isThere ? found : local(missingKey, new Auth({ permanent: false }), ref)
  })

/** Runs the effect and turns its failure or defect into a value. An interruption stays an interruption. */
const builtOr = <A, E, R, B>(
  build: Effect.Effect<A, E, R>,
  orElse: (error: unknown) => Effect.Effect<B>
): Effect.Effect<A | B, never, R> =>
  Effect.catchCause(build, (cause) =>
    Cause.hasInterrupts(cause) ? Effect.interrupt : orElse(Cause.squash(cause))
  )

/**
 * Warns about dead targets and about models that a cost limit cannot count, once for consecutive builds, and about a chain
 * that is built too often.
 */
const warn = (built: ReadonlyArray<Built>, { policy, warnsOfBuilds }: Settings): Effect.Effect<void> =>
  Effect.clockWith((clock) => {
    const refs = built.map((result) => ("live" in result ? result.live.ref : result.dead.target))
    const { isFirst, line } = Builds.count(clock, refs)
    const unpriced = built.flatMap((result) =>
      "live" in result && policy.maxCost !== undefined && result.live.info.price === undefined
        ? [result.live.ref.model]
        : []
    )
    const lines = isFirst
      ? [
          ...built.flatMap((result) => ("dead" in result ? [ChainLog.dead(result.dead.failure)] : [])),
          ...Array.from(new Set(unpriced), ChainLog.unpriced)
        ]
      : []
    const told = Effect.forEach(lines, Warnings.write, { discard: true })
    // Frequent builds have no event, so this line is logged even when `Warnings` are off.
    return line === undefined || !warnsOfBuilds ? told : Effect.andThen(told, Warnings.log(line))
  })

const publishDead = ({ target, failure }: TargetOut): Effect.Effect<void> =>
  ResilienceEvents.publishNow<TargetDead>({ _tag: "TargetDead", target, message: failure.message })
