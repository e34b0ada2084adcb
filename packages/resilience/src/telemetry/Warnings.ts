/**
 * Lines in Effect's log that need no layer: one for each change that matters, such as a circuit that opens.
 *
 * The lines go through `Effect.logWarning` and `Effect.logError`, so the program's loggers and minimum level apply.
 * They are one line each, without keys, prompts and bodies. {@link Warnings} turns them off for programs that print the
 * events of `ResilienceEvents` themselves.
 *
 * **Example** (Without warnings)
 *
 * ```ts
 * program.pipe(Effect.provide(Warnings.layerOff))
 * ```
 */
import { Context, Effect, Layer } from "effect"

/** True when changes are written to Effect's log. Default: true. */
export const Warnings: Context.Reference<boolean> = Context.Reference<boolean>(
  "@outlast/resilience/telemetry/Warnings",
  { defaultValue: () => true }
)

/** A line for Effect's log. */
export interface Line {
  readonly level: "Info" | "Warn" | "Error"
  readonly text: string
  /**
   * What a log has behind the text, and a printed timeline of one call has not: facts that the lines around it have in a
   * timeline. In a log the lines of many calls are mixed.
   */
  readonly detail?: string | undefined
}

/** Writes the line, unless {@link Warnings} is off. A logger that dies changes nothing for the caller. */
export const write = (line: Line): Effect.Effect<void> =>
  Effect.flatMap(Warnings, (isOn) => (isOn ? log(line) : Effect.void))

/** Writes the line even when {@link Warnings} is off. */
export const log = ({ level, text, detail = "" }: Line): Effect.Effect<void> =>
  Effect.ignoreCause(Effect.logWithLevel(level)(`${text}${detail}`))

/** No warnings, for programs that print events themselves. */
export const layerOff: Layer.Layer<never> = Layer.succeed(Warnings, false)
