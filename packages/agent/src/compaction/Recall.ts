/**
 * The tool `recall`: gives the model back what compaction cut out of results and arguments, piece by piece.
 *
 * A piece is small enough not to fill the window again. For an unknown id the model gets a sentence, and the run goes
 * on.
 *
 * **Example** (An agent that can read cut results again)
 *
 * ```ts
 * const store = RecallStore.memory()
 * Agent.run({ prompt, toolkit: Toolkit.merge(Workspace, Recall.toolkit) }).pipe(
 *   Effect.provide(Recall.layer(store)),
 *   Effect.provide(Compaction.layer({ store }))
 * )
 * ```
 */
import { Effect, Option, Schema } from "effect"
import type { Layer } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Options as Check } from "@outlast/resilience"
import * as Kind from "../options/Kind.ts"
import type { RecallStore } from "./RecallStore.ts"
import { check as isStore } from "./RecallStore.ts"

export const tool = Tool.make("recall", {
  description:
    "Gives back what was left out of an earlier result or call to save room. `id` stands where it was left out. `from` is the character to begin with: 0, or where the last piece ended.",
  parameters: Schema.Struct({ id: Schema.String, from: Schema.optionalKey(Schema.Finite) }),
  success: Schema.String
}).annotate(Tool.Readonly, true)

export const toolkit = Toolkit.make(tool)

export interface Options {
  /** Maximum characters of one piece. Default 20,000. */
  readonly maxCharacters?: number | undefined
  /** Texts for the model. Default: English. */
  readonly wording?: Wording | undefined
}

export interface Wording {
  readonly unknown: (id: string) => string
  /** Added after a piece when more text follows. */
  readonly more: (piece: { readonly to: number; readonly of: number }) => string
}

export const defaults = {
  maxCharacters: 20_000,
  wording: {
    unknown: (id: string) => `Nothing is kept under "${id}". Call the tool again that it came from.`,
    more: ({ to, of }: { readonly to: number; readonly of: number }) =>
      `\n[Up to character ${to} of ${of}. For more: from ${to}.]`
  }
} as const

const { is } = Check

const checks: Check.Checks<Options> = {
  maxCharacters: Kind.count,
  wording: Kind.object<Wording>("a wording, { unknown, more }", {
    unknown: is.required(is.fn("(id) => text")),
    more: is.required(is.fn("(piece) => text"))
  })
}

/** Handler over a store. Throws an `InvalidOption` (a `RangeError`) for a wrong store or option. */
export const layer = (
  store: RecallStore,
  options: Options = {}
): Layer.Layer<Tool.HandlersFor<typeof toolkit.tools>> => {
  isStore("Recall", "store", store)
  Check.fields("Recall", options, checks)
  const { maxCharacters: length = defaults.maxCharacters, wording = defaults.wording } = options
  return toolkit.toLayer({
    recall: ({ id, from = 0 }) =>
      Effect.map(
        store.get(id),
        Option.match({
          onNone: () => wording.unknown(id),
          onSome: (text) => {
            const begin = Math.min(Math.max(0, Math.floor(from)), text.length)
            const end = Math.min(begin + length, text.length)
            return (
              text.slice(begin, end) + (end < text.length ? wording.more({ to: end, of: text.length }) : "")
            )
          }
        })
      )
  })
}
