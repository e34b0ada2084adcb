/**
 * The agent of the demo: a plain effect/ai program without any code for Outlast.
 *
 * The demo runs it twice and changes one line outside of it: the layer that provides its `LanguageModel`.
 */
import { Data, Effect, Stream } from "effect"
import { Chat } from "effect/ai"
import { task, Workspace } from "./Project.ts"

/** The model kept asking for tools. */
class TooManyTurns extends Data.TaggedError("TooManyTurns")<{}> {
  override get message(): string {
    return `The model asked for tools in ${maxTurns} turns in a row.`
  }
}

/** More turns than the job needs, so that a model that never stops is cut off. */
const maxTurns = 20

/** Works until the model asks for no more tools. Returns its last text. */
export const fixTheTest = (show: (text: string) => Effect.Effect<void>) =>
  Effect.gen(function* () {
    const chat = yield* Chat.fromPrompt([{ role: "system", content: "You are a careful programmer." }])
    for (let turn = 1; turn <= maxTurns; turn++) {
      let text = ""
      let tools = 0
      yield* chat.streamText({ prompt: turn === 1 ? task : [], toolkit: Workspace }).pipe(
        Stream.runForEach((part) => {
          if (part.type === "text-delta") text += part.delta
          if (part.type === "tool-call") tools++
          return part.type === "text-end" ? show(text) : Effect.void
        })
      )
      if (tools === 0) return text
    }
    return yield* new TooManyTurns()
  })
