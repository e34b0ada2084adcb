/**
 * What is known of the model that is going to answer: how large its window is, and how much of that its answer takes.
 *
 * Over `Failover.layer` the `Targets` of the chain know. They are believed until an answer shows that another model
 * gave it: a program may have a chain around it and ask somebody else. Of any other model `ContextWindows` may know
 * something, if the model has a name: the one of who answered, or `Model.ModelName` of effect/ai.
 *
 * **What it does not do.** It cannot foresee a switch: where a target with a smaller window steps in, its provider
 * refuses, and the conversation is compacted then.
 */
import { Effect, Option } from "effect"
import { Model } from "effect/ai"
import { ContextWindows } from "../compaction/ContextWindows.ts"
import type { ModelInfo } from "../conversation/ModelInfo.ts"
import * as OutputLimit from "../failover/decide/OutputLimit.ts"
import type { TargetStatus } from "../failover/chain/Targets.ts"
import { Targets } from "../failover/chain/Targets.ts"

export interface NextModel {
  /** `undefined`: it has none that anybody has said. */
  readonly name: string | undefined
  /** Tokens of input and output together; `undefined`: nobody knows. */
  readonly window: number | undefined
  /** Tokens that its answer may have: as `OutputLimit` says, else as the model can; `undefined`: nobody knows. */
  readonly outputLimit: number | undefined
  readonly bindsThinking: boolean
  /** Its calls compact by themselves what does not fit. */
  readonly compacts: boolean
}

/** A target, by its id, and the name of its model. */
export interface Asked {
  readonly target: string
  readonly model: string
}

/** `last` answered before, or has refused; none: somebody of whom nothing is known; `undefined`: nobody was asked yet. */
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

/** The name of the model that was asked, as far as somebody says it. */
export const nameOf = (asked: Option.Option<Asked>): Effect.Effect<string | undefined> =>
  Option.isSome(asked)
    ? Effect.succeed(asked.value.model)
    : Effect.map(Effect.serviceOption(Model.ModelName), Option.getOrUndefined)

/** The target that answered last, unless it is out; at first the first that is not. */
const chosen = (
  all: ReadonlyArray<TargetStatus>,
  last: Option.Option<Asked> | undefined
): TargetStatus | undefined => {
  const ready = all.find(({ state }) => state === "ready")
  if (last === undefined) return ready ?? all[0]
  const same = all.find(({ target }) => Option.isSome(last) && target.id === last.value.target)
  return same === undefined || same.state === "ready" ? same : (ready ?? same)
}

/** What providers have said when they refused, `Compaction` takes into account by itself. */
const windowOf = (
  name: string | undefined,
  { contextWindow }: ModelInfo
): Effect.Effect<number | undefined> =>
  contextWindow !== undefined || name === undefined
    ? Effect.succeed(contextWindow)
    : Effect.flatMap(ContextWindows, (windows) => windows.of(name))

const limitOf = (around: number | OutputLimit.Range | undefined, info: ModelInfo): number | undefined =>
  OutputLimit.within(OutputLimit.range(around, info.maxOutputTokens).start, info)
