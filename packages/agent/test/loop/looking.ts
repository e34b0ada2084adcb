/** A toolkit with one tool, models that ask for it, and a record of the transitions. */
import { Effect, Layer, Schema, Stream } from "effect"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import type { Prompt, Response } from "effect/ai"
import { ResilienceEvents } from "@outlast/resilience"
import { finish } from "../support.ts"

export const Look = Toolkit.make(
  Tool.make("look", { parameters: Schema.Struct({ page: Schema.Finite }), success: Schema.String })
)

/** The handler, and the pages that it was asked for. */
export const looking = () => {
  const pages: Array<number> = []
  const layer = Look.toLayer({
    look: ({ page }) => Effect.sync(() => (pages.push(page), `the text of page ${page}`))
  })
  return { pages, layer }
}

export const look = (id: string, page: number): Response.PartEncoded => ({
  type: "tool-call",
  id,
  name: "look",
  params: { page }
})

export const looks = (...pages: ReadonlyArray<number>): Array<Response.PartEncoded> => [
  ...pages.map((page, i) => look(`${page}-${i}`, page)),
  finish("tool-calls")
]

export const says = (text: string, tokens = 1): Array<Response.PartEncoded> => [
  { type: "text", text },
  finish("stop", tokens)
]

/** A model that answers by the number of answers in the conversation, and the prompts that it got. */
export const model = (answer: (turn: number, prompt: Prompt.Prompt) => Array<Response.PartEncoded>) => {
  const prompts: Array<Prompt.Prompt> = []
  const layer = Layer.effect(
    LanguageModel.LanguageModel,
    LanguageModel.make({
      generateText: ({ prompt }) =>
        Effect.sync(() => {
          prompts.push(prompt)
          return answer(prompt.content.filter(({ role }) => role === "assistant").length, prompt)
        }),
      streamText: () => Stream.empty
    })
  )
  return { prompts, layer }
}

/** The transitions of runs, with their causes. `finished` is called for each tool result. */
export const transitions = (finished: Effect.Effect<unknown> = Effect.void) => {
  const seen: Array<string> = []
  const layer = ResilienceEvents.layerHandler((event) =>
    Effect.suspend(() => {
      if (event._tag === "ToolFinished") return finished
      if (event._tag !== "AgentTransition" || !("transition" in event)) return Effect.void
      const cause = "cause" in event && event.cause !== undefined ? ` (${String(event.cause)})` : ""
      seen.push(`${String(event.transition)}${cause}`)
      return Effect.void
    })
  )
  return { seen, layer }
}

export const textsOf = ({ content }: Prompt.Prompt): ReadonlyArray<string> =>
  content.flatMap((message) =>
    message.role === "system"
      ? [message.content]
      : message.content.flatMap((part) =>
          part.type === "text"
            ? [part.text]
            : part.type === "tool-result"
              ? [JSON.stringify(part.result)]
              : []
        )
  )
