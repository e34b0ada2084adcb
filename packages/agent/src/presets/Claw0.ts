/**
 * claw0's "resilience" (section 9). A failure moves to the next key at once, then to the fallback models. A
 * conversation that is too long is compacted. Calls never wait.
 *
 * Its profiles are the keys of the first entry of the chain, in their order. Its fallback models are the entries
 * after the first.
 *
 * {@link deviations} lists where it differs from the document, and how gaps of the document are filled.
 *
 * {@link runCap} is its limit of turns.
 */
import type { Layer } from "effect"
import { Data, Duration, Effect } from "effect"
import type { Tool } from "effect/ai"
import type { ChainError, NonEmpty, Services, Specs } from "../failover/chain/Chain.ts"
import type * as Agent from "../loop/Agent.ts"
import type { Outcome } from "../loop/Outcome.ts"
import * as RunCap from "../loop/RunCap.ts"
import * as Preset from "./PresetLayer.ts"
import { claw0 as compactionPolicy } from "../compaction/CompactionPolicy.ts"
import type { CallFailure } from "../failure/reasons/CallFailure.ts"
import type { ReasonTag } from "../failure/reasons/FailoverReason.ts"
import { Options } from "@outlast/resilience"
import type { RecoveryPolicy, Row } from "../failover/decide/RecoveryPolicy.ts"
import { base, interactive, steady } from "../failover/decide/RecoveryPolicy.ts"
import type { Truncation } from "../recovery/Truncation.ts"
import { defaults as ladder } from "../recovery/Truncation.ts"
import type { Claw0Class } from "./Vocabulary.ts"
import * as Vocabulary from "./Vocabulary.ts"

/** Differences from the document, and how its gaps are filled. `outlast explain --preset` prints them. */
export const deviations: ReadonlyArray<string> = [
  "Cooldowns are those of its list (300, 120, 60 s). In its walk-through a rate limit has the default of 300 s.",
  "The list has no cooldown for an unknown failure; 120 s is the code's. A cancel is unknown in the document and moves to the next key; here it stops.",
  "In the document a profile cools down for all models. Here it does so only if the key itself is rejected or out of credit. After other failures it cools down for the one model, so that a fallback model can use the same keys. The code achieves this by clearing cooldowns before it asks the fallback models.",
  "A call makes at most three compactions for each key and model, each followed by an attempt. The document drops a key after the third. Here the call then moves to a target with a larger window, or fails: no healthy key is blamed for a long conversation.",
  "The messages that a rejected call was shortened to belong to that call. A run keeps the whole conversation, and shortens it again in the next turn; the document goes on with the shortened ones. `Failover.layer` with `policy`, inside `Compaction.layer` with `compaction`, does so, too.",
  "A success clears the cooldowns that cover its target. In the document a cooldown lasts until its end.",
  "A single key without a fallback model has no cooldown."
]

/** The six classes of the document, and `cancelled`, which stops the call. */
export type Class = Claw0Class | "cancelled"

/** Output limit of 8,096 tokens. A cut answer stays cut. */
export const truncation: Truncation = { ...ladder, start: 8_096, raises: 0, continuations: 0 }

/** Turns of one run, at most, for a number of keys: `min(max(24 + 8·N, 32), 160)`. `Agent` has it as `maxTurns: "by keys"`. */
export const runCap = (keys: number): number =>
  RunCap.runCap(Options.integer("Claw0", "keys", keys, { min: 0 }))

const next: Row = { ...base, then: "move" }

export const policy: RecoveryPolicy<Class> = {
  ...interactive,
  hedge: false,
  classOf: ({ reason }) => (reason._tag === "Cancelled" ? "cancelled" : Vocabulary.claw0(reason)),
  rows: {
    auth: { ...next, cooldown: steady("key", "300 seconds") },
    billing: { ...next, cooldown: steady("key", "300 seconds") },
    rate_limit: { ...next, cooldown: steady("key+model", "120 seconds") },
    timeout: { ...next, cooldown: steady("key+model", "60 seconds") },
    unknown: { ...next, cooldown: steady("key+model", "120 seconds") },
    overflow: { ...next, then: "grow" },
    cancelled: { ...next, then: "stop" }
  },
  maxAttempts: runCap(1),
  // The document has no deadline. Calls never wait, so only slow failing attempts use this one up.
  deadline: Duration.minutes(30),
  maxCompactions: 3,
  compactionsPer: "target",
  circuits: false,
  probe: false,
  retryBudget: false,
  sharedBackoff: false,
  truncation
}

// -----------------------------------------------------------------------------
// Layer and agent
// -----------------------------------------------------------------------------

/** Results above 30 % of the window are cut, then the first half is summarised. */
export const compaction = compactionPolicy

/** The cooldown of a failure for which the document names none: the default of its `mark_failure`. */
export const defaultCooldown = Duration.seconds(300)

const classOfTag = (tag: ReasonTag): Class =>
  tag === "Cancelled" ? "cancelled" : Vocabulary.claw0({ _tag: tag })

/** Lines of the log: each failed key with its class and cooldown, and the end of a call. */
export const lines: Preset.Lines = () => (event) => {
  switch (event._tag) {
    case "CooldownOpened": {
      const { target, reason, length } = event
      const profile = target.key === "" ? target.id : target.key
      const cooldown = length === undefined ? "until it is reset" : `for ${length / 1_000}s`
      return Preset.line("Info", `profile ${profile}: ${classOfTag(reason)}, cools down ${cooldown}`)
    }
    case "CallCompacting":
      return Preset.line("Info", "context overflow: compacting and trying again")
    case "CallGaveUp":
      return event.reason === "AllTargetsOut" ? Preset.line("Warn", exhausted) : undefined
    default:
      return undefined
  }
}

/** The sentence of the document for a call that found no key and no fallback model; otherwise the failure's message. */
export const messageOf = (failure: CallFailure): string =>
  failure._tag === "AllTargetsOut" ? exhausted : failure.message

const exhausted = "all profiles and fallbacks exhausted"

/** The preset over a chain: its policy, compaction, alerts and lines. */
export const layer = <const S extends Specs>(
  chain: NonEmpty<S>,
  options: Preset.Options<Class> = {}
): Layer.Layer<Preset.Provided, ChainError, Services<S>> =>
  Preset.layerOf(chain, { policy, compaction, lines }, options)

/** A run reached its cap of turns. `outcome` has the work so far, and the transcript to continue from. */
export class LoopExceeded extends Data.TaggedError("LoopExceeded")<{
  readonly iterations: number
  readonly outcome: Outcome
}> {
  /** Always false: the same run would reach the cap again. */
  readonly isRetryable = false

  override get message(): string {
    return `Tool-use loop exceeded max iterations (${this.iterations}). Continue from \`outcome.transcript\`.`
  }

  /** For loggers. Omits the conversation. */
  override toJSON(): unknown {
    return { _tag: this._tag, message: this.message, iterations: this.iterations }
  }
}

/** An agent run of at most {@link runCap} turns, for the keys of the chain. Fails with `LoopExceeded` at that cap. */
export const agent = <Tools extends Record<string, Tool.Any> = {}, R = never>(
  options: Agent.Options<Tools, R>
): Effect.Effect<Outcome, Preset.Failures<Tools> | LoopExceeded, Agent.Services<Tools, R>> =>
  Effect.gen(function* () {
    const { maxTurns = "by keys" } = options
    const iterations = maxTurns === "by keys" ? yield* RunCap.ofChain : maxTurns
    const outcome = yield* Preset.guarded({}, { ...options, maxTurns: iterations })
    if (outcome.status !== "turn_limit") return outcome
    return yield* new LoopExceeded({ iterations, outcome })
  })
