/** Publishes the first line of the status page, and writes it to the log, when it changes. */
import { Clock, Effect } from "effect"
import { EventDefinition, ResilienceEvents, Warnings } from "@outlast/resilience"
import type { Headline } from "./Headline.ts"
import { isOther } from "./Headline.ts"
import type { HeadlineChanged } from "./OpsEvent.ts"
import { definitions } from "./OpsEvent.ts"

/** Time between two looks. */
const pause = "5 seconds"

const update = EventDefinition.reader(definitions)

/** Looks until it is interrupted. A program that starts well has no line. */
export const watch = (read: Effect.Effect<Headline>): Effect.Effect<never> =>
  Effect.gen(function* () {
    let last: Headline = { level: "good", text: "", parts: [], nextTries: {} }
    for (;;) {
      yield* Effect.sleep(pause)
      const next = yield* read
      const isNews = next.level === "good" ? last.level !== "good" : isOther(last, next)
      last = next
      if (!isNews) continue
      const at = yield* Clock.currentTimeMillis
      const event: HeadlineChanged = { _tag: "HeadlineChanged", at, level: next.level, text: next.text }
      yield* update(event)
      yield* ResilienceEvents.publish(event)
      const line = EventDefinition.lineOf(definitions, event)
      if (line !== undefined) yield* Warnings.write(line)
    }
  })
