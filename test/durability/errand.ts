/** The agent of the durability run: it looks and notes, it pays, it rings, and it says that it is done. */
import { Effect, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Journal, Task } from "@outlast/tasks"

/** How long a tool takes before and after its effect, in milliseconds. */
const Pace = Schema.Struct({ before: Schema.Finite, after: Schema.Finite })
export type Pace = typeof Pace.Type

const tool = <const Name extends string>(name: Name) =>
  Tool.make(name, { parameters: Pace, success: Schema.String })

/** The pace of the tools that are slow; the others take no time. */
const Errand = Schema.Struct({ ...Pace.fields, slow: Schema.Array(Schema.String) })

/** The agent, with its effects in the world at an address. */
export const errand = (world: string, version = 1) => {
  const happened = (key: string) =>
    Effect.promise(async (): Promise<number> => {
      const response = await fetch(`${world}/${encodeURIComponent(key)}`)
      return Number(await response.text())
    })
  const pay = Journal.reconcile(tool("pay"), ({ key }) =>
    Effect.map(happened(key), (times) => (times > 0 ? { _tag: "Happened", result: key } : { _tag: "DidNot" }))
  )
  const toolkit = Toolkit.make(
    Journal.effects("none")(Tool.make("look", { success: Schema.String })),
    Journal.effects("idempotent")(tool("note")),
    Journal.effects("once")(pay),
    Journal.effects("once")(tool("ring"))
  )
  return Task.make("errand", { version, params: Errand, toolkit })
}
