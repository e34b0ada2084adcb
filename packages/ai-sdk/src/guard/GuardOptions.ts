/**
 * Limits and loop detection of a run.
 */
import type { LoopDetector } from "@outlast/agent/guard"
import { LoopGuard } from "@outlast/agent/internal"
import { Options as Check } from "@outlast/resilience"

type Unit = "millis" | "second" | "seconds" | "minute" | "minutes" | "hour" | "hours"

/** A number of milliseconds, or a text such as `"10 minutes"`. */
export type Time = number | `${number} ${Unit}`

export interface GuardOptions {
  /** Tool calls of a run and its sub-agents. Default 400. */
  readonly toolCalls?: number | undefined
  /** Calls of single tools, by name. Default: no limit. 0 forbids the tool. */
  readonly tools?: Readonly<Record<string, number>> | undefined
  /** Model calls of a run and its sub-agents. Default 400. */
  readonly turns?: number | undefined
  /** Input and output tokens, as providers report them. Checked before each model call. Default: no limit. */
  readonly tokens?: number | undefined
  /** US dollars, where prices are known. Checked before each model call. Default: no limit. */
  readonly cost?: number | undefined
  /**
   * Active time: waits for a cooldown and between attempts do not count. Checked before each model call and tool call.
   * Default 60 minutes.
   */
  readonly time?: Time | undefined
  /**
   * Loop detection. Default `"strict"`: identical calls with identical results, and cycles of them, are blocked and
   * then stopped; weaker evidence is told to the model. `"soft"` also blocks on weaker evidence, at twice its count.
   * `"tell"` only tells the model. `false`: none. An object sets the counts.
   */
  readonly loops?: LoopDetector.Mode | LoopDetector.Options | false | undefined
  /**
   * How a stopped run ends. Default `"error"`: its next model call throws `SafetyStop`. `"finish"`: its next model call
   * answers with the message of the stop, as the model's last text.
   */
  readonly onStop?: "error" | "finish" | undefined
}

const { is } = Check
const limit = is.integer({ min: 1, max: 1_000_000 })

/** Checks of the fields. `LoopGuard.settingsOf` checks the options of loops. */
export const checks: Check.Checks<GuardOptions> = {
  toolCalls: limit,
  tools: is.record(is.integer({ min: 0, max: 1_000_000 })),
  turns: limit,
  tokens: is.number({ above: 0 }),
  cost: is.number({ above: 0 }),
  time: is.duration({ min: 1, max: "30 days" }),
  loops: is.anything,
  onStop: is.oneOf("error", "finish")
}

export const settingsOf = (options: GuardOptions): LoopGuard.Settings => {
  const { toolCalls, tools, turns, tokens, cost: money, time, loops } = options
  // Edits of files are not counted here.
  return LoopGuard.settingsOf({
    toolCalls,
    tools,
    turns,
    tokens,
    money,
    time,
    loops,
    fileOf: () => undefined
  })
}
