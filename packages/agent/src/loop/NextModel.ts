/**
 * Predicts which model answers next: its context window, and the length that its answer may have.
 *
 * Over `Failover.layer` the chain's `Targets` have this. They are used until another model answers: a program may
 * have a chain around it and still ask a different model. For such a model `ContextWindows` may know the window by
 * name. The name is that of the model that answered, or `Model.ModelName` of effect/ai.
 *
 * **Limits.** A switch cannot be foreseen: when a target with a smaller window takes over, its provider rejects the
 * conversation, and it is compacted then.
 */
import { Effect, Option } from "effect"
import { Model } from "effect/ai"
import { ContextWindows } from "../compaction/ContextWindows.ts"
import type { ModelInfo } from "../conversation/ModelInfo.ts"
import * as OutputLimit from "../failover/decide/OutputLimit.ts"
import type { TargetStatus } from "../failover/chain/Targets.ts"
import { Targets } from "../failover/chain/Targets.ts"

export interface NextModel {
  /** Name of the model; `undefined` if it has no known name. */
  readonly name: string | undefined
  /** Tokens of input and output together; `undefined` if unknown. */
  readonly window: number | undefined
  /** Tokens that the answer may have: from `OutputLimit`, otherwise the model's maximum; `undefined` if unknown. */
  readonly outputLimit: number | undefined
  readonly bindsThinking: boolean
  /** True when the chain compacts an oversized conversation by itself. */
  readonly compacts: boolean
}

/** The target that was asked: its id and the name of its model. */
export interface Asked {
  readonly target: string
  readonly model: string
}

/**
 * Predicts the next model. `last` is the target that answered or rejected the last call. `none` means a model
 * outside of the chain, `undefined` that no call was made yet.
 */
export const of = (last: Option.Option<Asked> | undefined): Effect.Effect<NextModel> =>
  Effect.gen(function* () {
    const targets = Option.getOrUndefined(yield* Effect.serviceOption(Targets))
    const next = targets === undefined ? undefined : chosen(yield* targets.list, last)
    const name = next?.target.model ?? (yield* nameOf(last ?? Option.none()))
    const info = next?.info ?? {}
    return {
      name,
      window: yield* windowOf(name, info),
      outputLimit: limitOf(yield* OutputLimit.OutputLimit, info),
      bindsThinking: info.capabilities?.bindsThinking === true,
      compacts: next !== undefined && targets?.compacts === true
    }
  })

/** Name of the model that was asked, if known. */
export const nameOf = (asked: Option.Option<Asked>): Effect.Effect<string | undefined> =>
  Option.isSome(asked)
    ? Effect.succeed(asked.value.model)
    : Effect.map(Effect.serviceOption(Model.ModelName), Option.getOrUndefined)

/** The target that answered last, unless it is unavailable; before the first call, the first ready target. */
const chosen = (
  all: ReadonlyArray<TargetStatus>,
  last: Option.Option<Asked> | undefined
): TargetStatus | undefined => {
  const ready = all.find(({ state }) => state === "ready")
  if (last === undefined) return ready ?? all[0]
  const same = all.find(({ target }) => Option.isSome(last) && target.id === last.value.target)
  return same === undefined || same.state === "ready" ? same : (ready ?? same)
}

/** The window of a model. Windows learned from rejections are added by `Compaction` itself. */
const windowOf = (
  name: string | undefined,
  { contextWindow }: ModelInfo
): Effect.Effect<number | undefined> =>
  contextWindow !== undefined || name === undefined
    ? Effect.succeed(contextWindow)
    : Effect.flatMap(ContextWindows, (windows) => windows.of(name))

const limitOf = (around: number | OutputLimit.Range | undefined, info: ModelInfo): number | undefined =>
  OutputLimit.within(OutputLimit.range(around, info.maxOutputTokens).start, info)
