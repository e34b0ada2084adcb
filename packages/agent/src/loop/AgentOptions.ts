/** The options of an agent run: their meaning, defaults and checks. */
import { Duration, Effect } from "effect"
import type { Prompt, Tool, Toolkit } from "effect/ai"
import { Options as Check } from "@outlast/resilience"
import type { MidStream } from "../failover/decide/RecoveryPolicy.ts"
import * as Limits from "../guard/Limits.ts"
import type * as LoopDetector from "../guard/LoopDetector.ts"
import * as Kind from "../options/Kind.ts"
import * as Compacting from "./Compacting.ts"
import * as Hooks from "./Hooks.ts"
import * as RunSettings from "./RunSettings.ts"
import type { Settings } from "./ToolCalls.ts"

/** A toolkit whose handlers are in the context, which `R` names. */
export interface Unbound<Tools extends Record<string, Tool.Any>, R> extends Effect.Effect<
  Toolkit.WithHandler<Tools>,
  never,
  R
> {
  readonly tools: Tools
}

export interface Options<Tools extends Record<string, Tool.Any>, R = Tool.HandlersFor<Tools>> {
  /** The task, or a conversation to continue. */
  readonly prompt: Prompt.RawInput
  /** A toolkit, or one with its handlers, as `McpClient.toolkit` gives. Default: no tools. */
  readonly toolkit?: Unbound<Tools, R> | Toolkit.WithHandler<Tools> | undefined
  /**
   * Turns of the run, at most. `"by keys"`: `min(max(24 + 8·N, 32), 160)` for the N keys of the chain's first model.
   * Default {@link defaults}`.maxTurns`: 50.
   */
  readonly maxTurns?: number | "by keys" | undefined
  /**
   * US dollars of the run, at most, checked after each turn. Default: no limit. Calls without a known price count
   * as 0, which the run logs once.
   */
  readonly maxCost?: number | undefined
  /** Time limit of one tool call. Default {@link defaults}`.toolTimeout`: 2 minutes. */
  readonly toolTimeout?: Duration.Input | undefined
  /** Number of tool calls of a turn that run concurrently. Default {@link defaults}`.toolConcurrency`: 8. */
  readonly toolConcurrency?: number | undefined
  /**
   * Behaviour when a stream breaks after text was shown; for `stream` only. Default: the policy of the model's
   * layer decides.
   */
  readonly midStream?: MidStream | undefined
  /**
   * Limits of the run and its sub-agents, as in `SafetyGuard`. The run ends with the status `guard_stopped` when it
   * reaches one. Default: no limits beside `maxTurns`, `maxCost` and those of a guard around the run.
   */
  readonly limits?: Limits.Limits | undefined
  /**
   * Reaction to loops, as in `SafetyGuard`; they count as limits. Default: `"strict"` with `limits`, otherwise
   * `false`.
   */
  readonly loops?: LoopDetector.Mode | false | undefined
  /**
   * Output tokens that the run should produce. A model that stops below 90 % is asked to go on, until three answers
   * in a row add less than 500 tokens. Default: the model decides when it ends.
   */
  readonly tokenBudget?: number | undefined
  /** Hooks of the host. Default: none. */
  readonly hooks?: Hooks.Hooks | undefined
  /**
   * Approves or rejects calls of tools that need approval. `"suspend"`: the run ends with the status `suspended`, and
   * `Agent.resume` continues it. Default: they are rejected.
   */
  readonly approve?: Settings["approve"] | "suspend"
  /** Cancels the run when it ends. The outcome has the conversation so far. Default: none. */
  readonly cancel?: Effect.Effect<unknown> | undefined
  /**
   * Compacts the conversation when it does not fit: with the `Compaction` around the run, otherwise with the run's
   * own model as the summariser. Default: only with a surrounding `Compaction`. `false`: never.
   */
  readonly compaction?: Compacting.Options | false | undefined
}

export const defaults = { maxTurns: 50, toolTimeout: "2 minutes", toolConcurrency: 8 } as const

/** Options as the parts of a run read them. */
export interface Resolved {
  /** Settings of the tool calls. */
  readonly tools: Settings
  /** The limit of turns. */
  readonly maxTurns: number | "by keys"
  /** The settings of the run, with the reactive compactions of a turn where it has compaction. */
  readonly settings: (maxTurns: number, maxReactive: number | undefined) => RunSettings.RunSettings
}

/** Checks the options. Throws an `InvalidOption` (a `RangeError`) for one that is unknown or out of range. */
export const resolve = <Tools extends Record<string, Tool.Any>, R>(options: Options<Tools, R>): Resolved => {
  Kind.carrier("options such as { prompt, toolkit }")("Agent", "options", options)
  Check.fields<Options<Tools, R>>("Agent", options, checks)
  const { maxTurns = defaults.maxTurns, maxCost, limits, tokenBudget, hooks, approve } = options
  const { toolConcurrency: concurrency = defaults.toolConcurrency } = options
  const timeout = Duration.fromInputUnsafe(options.toolTimeout ?? defaults.toolTimeout)
  const loops = options.loops === false ? undefined : (options.loops ?? (limits && "strict"))
  const bounded = limits === undefined ? undefined : RunSettings.limitsOf(Limits.make(limits))
  return {
    maxTurns,
    tools: { timeout, concurrency, approve: approve === "suspend" ? undefined : approve },
    settings: (maxTurns, maxReactive) => ({
      maxTurns,
      hooks: Hooks.pointsOf(hooks),
      suspends: approve === "suspend",
      ...(maxCost === undefined ? {} : { maxCost }),
      ...(bounded === undefined ? {} : { limits: bounded }),
      ...(loops === undefined ? {} : { loops }),
      ...(tokenBudget === undefined ? {} : { tokenBudget }),
      ...(maxReactive === undefined ? {} : { maxReactive })
    })
  }
}

const { is } = Check

const checks: Check.Checks<Options<{}>> = {
  prompt: is.required(Kind.prompt),
  toolkit: Kind.anyToolkit,
  maxTurns: (module, field, value) => {
    if (value !== "by keys") is.integer({ min: 1 })(module, field, value)
  },
  maxCost: Kind.dollars,
  limits: Kind.object("limits such as { toolCalls: 100 }", Limits.checks),
  loops: is.falseOr(is.oneOf("strict", "soft", "tell")),
  tokenBudget: Kind.count,
  toolTimeout: Kind.positiveDuration,
  toolConcurrency: Kind.count,
  midStream: is.oneOf("continue", "fail", "restart"),
  approve: (module, field, value) => {
    if (value !== "suspend") is.fn('(call) => Effect<boolean>, or "suspend"')(module, field, value)
  },
  hooks: Kind.object("hooks such as { beforeTool }", Hooks.checks),
  cancel: (module, field, value) => Check.check(Effect.isEffect(value), module, field, value, "an Effect"),
  compaction: Kind.orFalse(Kind.object("false, or options such as { window: 200_000 }", Compacting.checks))
}
