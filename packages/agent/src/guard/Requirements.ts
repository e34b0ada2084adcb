/**
 * What a tool or an extension needs before it can be offered: environment variables, and whatever a check finds out.
 *
 * What is not met is skipped at discovery, so that no model is offered a tool that can only fail, and it is said why: in
 * the result, as a `ToolSkipped` event and in the log. `Agent` does it at the beginning of each run. A check that fails, dies, interrupts itself or finds nothing
 * is not met. Variables are read from the `ConfigProvider`; an empty one is missing. No value of a variable appears
 * anywhere: what a check says is freed of those that it names, and of what looks like a secret.
 *
 * **What it does not do.** It looks once. What goes away later fails as it fails.
 *
 * **Example** (No token, no tool)
 *
 * ```ts
 * const Issues = Requirements.requires(Tool.make("list_issues", { … }), { env: ["GITHUB_TOKEN"] })
 * const { toolkit, skipped } = yield* Requirements.offered(Toolkit.make(Issues, ReadFile))
 * // skipped => [{ name: "list_issues", reason: "GITHUB_TOKEN is not set" }]
 * ```
 */
import { Cause, Clock, Config, Context, Effect, Option } from "effect"
import { Toolkit } from "effect/ai"
import type { Tool } from "effect/ai"
import { ResilienceEvents } from "@outlast/resilience"
import { Options as Check } from "@outlast/resilience"
import * as Kind from "../options/Kind.ts"
import * as Redaction from "../secrets/Redaction.ts"
import type { ToolSkipped } from "./GuardEvent.ts"

export interface Requirements {
  /** Names of variables that have to be set. */
  readonly env?: ReadonlyArray<string> | undefined
  /** True if it can be offered; a text says why not. Of that 300 characters are kept, without secrets. */
  readonly check?: Effect.Effect<boolean | string, unknown> | undefined
}

export interface Skipped {
  readonly name: string
  readonly reason: string
}

/** The annotation of a tool. */
export class Requires extends Context.Service<Requires, Requirements>()(
  "@outlast/agent/guard/Requirements/Requires"
) {}

const checks: Check.Checks<Requirements> = {
  env: Kind.list(Kind.name, "a list of names of variables"),
  check: Check.is.effect
}

/** Says what a tool needs. Throws an `InvalidOption` (a `RangeError`) for a need that is unknown or not allowed. */
export const requires = <T extends Tool.Any>(tool: T, needs: Requirements): T => {
  Check.fields("Requirements", needs, checks)
  // The annotated tool is of the same type.
  return tool.annotate(Requires, needs) as unknown as T
}

/** Why it cannot be offered; none if it can. Dies with an `InvalidOption` as {@link requires} throws it. */
export const unmet = (needs: Requirements): Effect.Effect<Option.Option<string>> =>
  Effect.gen(function* () {
    Check.fields("Requirements", needs, checks)
    const { env = [], check } = needs
    const missing: Array<string> = []
    const values: Array<string> = []
    for (const name of env) {
      const value = (yield* Effect.orElseSucceed(Config.String(name), () => "")).trim()
      if (value === "") missing.push(name)
      // A shorter one may be a part of any word.
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
    // The check of a program without types may give anything.
    if (typeof said !== "string") return Option.some("its check gave neither true, false nor a text")
    return Option.some(Redaction.scrub(said, maxReason, { values }))
  })

/** Characters of a value that may be a secret, at least. */
const shortest = 6
/** Characters of a reason. */
const maxReason = 300

/** What can be offered of named things that say what they need: extensions, servers, tools. In their order. */
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
        const event: ToolSkipped = {
          _tag: "ToolSkipped",
          at: yield* Clock.currentTimeMillis,
          tool: one.name,
          reason: reason.value
        }
        yield* ResilienceEvents.publish(event)
      }
    }
    return { offered, skipped }
  })

/** Whether a tool of it says what it needs. */
export const isAnnotated = (self: { readonly tools: Record<string, Tool.Any> }): boolean =>
  Object.values(self.tools).some((tool) => Option.isSome(Context.getOption(tool.annotations, Requires)))

/** The toolkit without the tools whose needs are not met. An `Agent` asks for it by itself. */
export const offered = <Tools extends Record<string, Tool.Any>>(
  self: Toolkit.Toolkit<Tools>
): Effect.Effect<{ readonly toolkit: Toolkit.Toolkit<Tools>; readonly skipped: ReadonlyArray<Skipped> }> =>
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
      // A toolkit of fewer tools: only a model asks for one by its name, and it knows those that are offered.
      toolkit: Toolkit.make(...offered.map(({ tool }) => tool)) as unknown as Toolkit.Toolkit<Tools>
    })
  )
