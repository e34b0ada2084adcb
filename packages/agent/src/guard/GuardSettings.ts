/**
 * Options of a guard, checked and resolved. Shared by `SafetyGuard` and `LoopGuard`.
 */
import { Duration } from "effect"
import { Options as Check } from "@outlast/resilience"
import * as EditedFiles from "./EditedFiles.ts"
import type { Settings } from "./Guard.ts"
import * as Limits from "./Limits.ts"
import * as LoopDetector from "./LoopDetector.ts"
import type { Input as LoopInput } from "./loops/LoopOptions.ts"
import * as ToolNature from "./loops/ToolNature.ts"
import type { Texts } from "./StopReason.ts"
import { textChecks, withOwn } from "./StopReason.ts"

export interface Options extends Limits.Limits {
  /**
   * Reaction to loops. Default `"strict"`: identical calls with identical outcomes, and cycles of these, are blocked
   * and stopped; other evidence nudges the model. `"soft"`: other evidence also blocks, at twice its count. `"tell"`:
   * nothing is blocked. `false`: loops are not detected. An object sets the counts; its `mode` is one of these words.
   */
  readonly loops?: LoopDetector.Mode | LoopInput | false | undefined
  /** Called before each tool call. May ask a person; the wait is not active time. Default: all calls are allowed. */
  readonly permit?: Settings["permit"]
  /**
   * Names the file that a call edits, always by the same name; several, or none. Default: derived from the arguments.
   */
  readonly fileOf?: Settings["fileOf"] | undefined
  /** Texts for the host and for the model. Default: English. */
  readonly texts?: Partial<Texts> | undefined
  /** Maximum number of extensions by the host. Default 10, at most 1,000. */
  readonly extensions?: number | undefined
  /**
   * Grace period: time that a stopped program has for its finalizers. After it, the run ends anyway. Default 10
   * seconds.
   */
  readonly grace?: Duration.Input | undefined
}

export const defaults = { ...Limits.defaults, extensions: 10, grace: "10 seconds" } as const

/** The settings of a guard. Throws an `InvalidOption` (a `RangeError`) for an unknown or invalid option. */
export const settingsOf = (options: Options): Settings => {
  Check.fields<Options>(module, options, checks)
  const { loops, permit, fileOf = editedFiles, texts, extensions, grace, ...limits } = options
  return {
    bounds: Limits.make(limits),
    loops: loops === false ? undefined : LoopDetector.make(loops),
    permit,
    fileOf,
    texts: withOwn(texts),
    extensions: extensions ?? defaults.extensions,
    grace: Duration.toMillis(grace ?? defaults.grace)
  }
}

const module = "SafetyGuard"

const { is } = Check

const checks: Check.Checks<Options> = {
  ...Limits.checks,
  // `LoopDetector.make` checks the fields.
  loops: is.falseOr(
    is.either(
      is.oneOf("strict", "soft", "tell"),
      is.record(is.anything, '"strict", "soft", "tell", or options such as { acts: { block: 3 } }')
    )
  ),
  permit: is.fn('(call) => Effect<"allow" | { refuse: string }>'),
  fileOf: is.fn("(call) => string | string[] | undefined"),
  texts: is.object(textChecks),
  extensions: is.integer({ min: 0, max: 1_000 }),
  grace: is.duration({ max: "1 hour" })
}

/** A tool whose name says that it only reads is assumed to edit nothing. */
const editedFiles: Settings["fileOf"] = ({ tool, arguments: args }) =>
  ToolNature.ofName(tool) === "read" ? undefined : EditedFiles.of(args)
