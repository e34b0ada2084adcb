/**
 * Requirements of a tool or an extension: environment variables, and a custom check.
 *
 * Tools with unmet requirements are not offered, so that no model calls a tool that can only fail. The reason is in
 * the result, in a `ToolSkipped` event and in the log. `Agent` checks at the beginning of each run. A check that
 * fails, dies or interrupts itself counts as unmet. Variables are read from the `ConfigProvider`; an empty variable
 * counts as missing. Reasons never contain values of the named variables or texts that look like a secret.
 *
 * **What it does not do.** It checks once. A tool that loses a requirement later fails when it is called.
 *
 * **Example** (No token, no tool)
 *
 * ```ts
 * const Issues = Requirements.requires(Tool.make("list_issues", { description: "Lists the open issues." }), { env: ["GITHUB_TOKEN"] })
 * const { toolkit, skipped } = yield* Requirements.offered(Toolkit.make(Issues, ReadFile))
 * // skipped => [{ name: "list_issues", reason: "GITHUB_TOKEN is not set" }]
 * ```
 */
import { Cause, Config, Context, Effect, Option } from "effect"
import { Toolkit } from "effect/ai"
import type { Tool } from "effect/ai"
import { ResilienceEvents } from "@outlast/resilience"
import { Options as Check } from "@outlast/resilience"
import * as Kind from "../options/Kind.ts"
import * as Redaction from "../secrets/Redaction.ts"
import type { ToolSkipped } from "./GuardEvent.ts"

export interface Requirements {
  /** Names of variables that must be set. */
  readonly env?: ReadonlyArray<string> | undefined
  /**
   * Returns true when the tool can be offered. A text is the reason why it cannot: scrubbed of secrets, at most 300
   * characters.
   */
  readonly check?: Effect.Effect<boolean | string, unknown> | undefined
}

export interface Skipped {
  readonly name: string
  readonly reason: string
}

/** Annotation of a tool with its requirements. */
export class Requires extends Context.Service<Requires, Requirements>()(
  "@outlast/agent/guard/Requirements/Requires"
) {}

const checks: Check.Checks<Requirements> = {
  env: Kind.list(Kind.name, "a list of names of variables"),
  check: Check.is.effect
}

/** Annotates a tool with its requirements. Throws an `InvalidOption` (a `RangeError`) for an unknown or invalid one. */
export const requires = <T extends Tool.Any>(tool: T, needs: Requirements): T => {
  Check.fields("Requirements", needs, checks)
  // An annotation does not change the type of the tool.
  return tool.annotate(Requires, needs) as unknown as T
}

/**
 * The reason why a requirement is unmet; none when all are met. Dies with an `InvalidOption`, like {@link requires}.
 */
export const unmet = (needs: Requirements): Effect.Effect<Option.Option<string>> =>
  Effect.gen(function* () {
    Check.fields("Requirements", needs, checks)
    const { env = [], check } = needs
    const missing: Array<string> = []
    const values: Array<string> = []
    for (const name of env) {
      const value = (yield* Effect.orElseSucceed(Config.String(name), () => "")).trim()
      if (value === "") missing.push(name)
      // A shorter value may be part of any word.
      else if (value.length >= shortest) values.push(value)
    }
    if (missing.length > 0) {
      return Option.some(`${missing.join(", ")} ${missing.length === 1 ? "is" : "are"} not set`)
    }
    if (check === undefined) return Option.none()
    const exit = yield* Effect.exit(check)
    if (exit._tag === "Failure") {
      return Option.some(
        Cause.hasInterruptsOnly(exit.cause) ? "its check was interrupted" : "its check failed"
      )
    }
    const said: unknown = exit.value
    if (said === true) return Option.none()
    if (said === false) return Option.some("its check says no")
    // The check of an untyped program may return any value.
    if (typeof said !== "string") return Option.some("its check gave neither true, false nor a text")
    return Option.some(Redaction.scrub(said, maxReason, { values }))
  })

/** Minimum characters of a value that is treated as a secret. */
const shortest = 6
/** Maximum characters of a reason. */
const maxReason = 300

/** Splits named items (extensions, servers, tools) by their requirements. Keeps the order. */
export const discover = <A extends { readonly name: string; readonly requires?: Requirements | undefined }>(
  all: Iterable<A>
): Effect.Effect<{ readonly offered: ReadonlyArray<A>; readonly skipped: ReadonlyArray<Skipped> }> =>
  Effect.gen(function* () {
    const offered: Array<A> = []
    const skipped: Array<Skipped> = []
    for (const one of all) {
      const reason = one.requires === undefined ? Option.none() : yield* unmet(one.requires)
      if (Option.isNone(reason)) offered.push(one)
      else {
        skipped.push({ name: one.name, reason: reason.value })
        yield* Effect.logWarning(`${one.name} is not offered: ${reason.value}`)
        yield* ResilienceEvents.publishNow<ToolSkipped>({
          _tag: "ToolSkipped",
          tool: one.name,
          reason: reason.value
        })
      }
    }
    return { offered, skipped }
  })

/** True when a tool of the toolkit has requirements. */
export const isAnnotated = (self: { readonly tools: Record<string, Tool.Any> }): boolean =>
  Object.values(self.tools).some((tool) => Option.isSome(Context.getOption(tool.annotations, Requires)))

/** The toolkit without the tools whose requirements are unmet. An `Agent` does this automatically. */
export const offered = <Tools extends Record<string, Tool.Any>>(self: {
  readonly tools: Tools
}): Effect.Effect<{ readonly toolkit: Toolkit.Toolkit<Tools>; readonly skipped: ReadonlyArray<Skipped> }> =>
  Effect.map(
    discover(
      Object.values<Tool.Any>(self.tools).map((tool) => ({
        name: tool.name,
        tool,
        requires: Option.getOrUndefined(Context.getOption(tool.annotations, Requires))
      }))
    ),
    ({ offered, skipped }) => ({
      skipped,
      // The cast is safe: only a model looks up a tool by name, and it knows only the offered ones.
      toolkit: Toolkit.make(...offered.map(({ tool }) => tool)) as unknown as Toolkit.Toolkit<Tools>
    })
  )
