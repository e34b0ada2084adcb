/**
 * Skips tools and extensions whose environment variables are missing, instead of registering what fails at each call.
 *
 * An item names its variables in `requires.env`, as the manifest of an extension does. A variable that is empty counts
 * as missing. Skipped items are named in a warning and in the event `RequirementMissing`; values are never shown.
 *
 * **Example** (Tools that need a key)
 *
 * ```ts
 * const usable = yield* Requirements.met([
 *   { name: "search", requires: { env: ["SEARCH_KEY"] }, tool: search },
 *   { name: "pay", tool: pay }
 * ])
 * // Skipped `search`: the environment variable SEARCH_KEY is not set.
 * ```
 */
import { Effect } from "effect"
import { ResilienceEvents, Warnings } from "@outlast/resilience"
import type { EventDefinition } from "@outlast/resilience"
import * as Check from "@outlast/resilience/Options"

export interface Item {
  /** The name in the warning. */
  readonly name: string
  readonly requires?: { readonly env?: ReadonlyArray<string> | undefined } | undefined
}

export interface RequirementMissing {
  readonly _tag: "RequirementMissing"
  /** Unix time in milliseconds. */
  readonly at: number
  readonly name: string
  /** Names of the missing variables. */
  readonly missing: ReadonlyArray<string>
}

export const definitions: EventDefinition.EventDefinitions<RequirementMissing> = {
  RequirementMissing: {
    doc: "A tool or an extension was skipped, because environment variables are missing.",
    line: ({ missing, name }) => ({
      level: "Warn",
      text: `Skipped \`${name}\`: the environment variable${missing.length === 1 ? "" : "s"} ${missing.join(", ")} ${missing.length === 1 ? "is" : "are"} not set.`
    }),
    metrics: []
  }
}

export type Environment = Readonly<Record<string, string | undefined>>

/** The names of the variables that the item lacks. */
export const missingOf = (item: Item, environment: Environment = process.env): ReadonlyArray<string> =>
  (item.requires?.env ?? []).filter((name) => (environment[name] ?? "").trim() === "")

const { is } = Check

const itemChecks = {
  name: is.required(is.text),
  requires: is.object<NonNullable<Item["requires"]>>({ env: is.list(is.text, "a list of names") })
} as const

/** Returns the items that have all of their variables, and warns about the others. Default: the process' environment. */
export const met = <A extends Item>(
  items: ReadonlyArray<A>,
  environment: Environment = process.env
): Effect.Effect<ReadonlyArray<A>> =>
  Effect.suspend(() => {
    for (const { name, requires } of items) {
      Check.fields<Pick<Item, "name" | "requires">>("Requirements", { name, requires }, itemChecks)
    }
    return Effect.filter(items, (item) => {
      const missing = missingOf(item, environment)
      return missing.length === 0 ? Effect.succeed(true) : Effect.as(skipped(item.name, missing), false)
    })
  })

const skipped = (name: string, missing: ReadonlyArray<string>): Effect.Effect<void> => {
  const event = { _tag: "RequirementMissing", name, missing } as const
  const line = definitions.RequirementMissing.line({ ...event, at: 0 })
  return Effect.andThen(
    ResilienceEvents.publishNow<RequirementMissing>(event),
    line === undefined ? Effect.void : Warnings.write(line)
  )
}
