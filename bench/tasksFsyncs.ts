/** A task on SQLite, in a process of its own that strace watches: `node bench/tasksFsyncs.ts FILE TURNS KIND`. */
import { Journal, Task, Tasks } from "@outlast/tasks"
import { SqliteClient } from "@outlast/node/sqlite"
import { Effect, Layer, Schema, Stream } from "effect"
import { LanguageModel, Tool, Toolkit } from "effect/ai"

const [filename = "", turns = "10", kind = "none"] = process.argv.slice(2)

const Step = Journal.effects(kind === "once" ? "once" : "none")(Tool.make("step", { success: Schema.String }))
const Toolbox = Toolkit.make(Step)
const Walk = Task.make("walk", { version: 1, params: Schema.Struct({}), toolkit: Toolbox })
const usage = {
  inputTokens: { uncached: undefined, total: 10, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 5, text: undefined, reasoning: undefined }
}
let asked = 0
const model = Layer.effect(
  LanguageModel.LanguageModel,
  LanguageModel.make({
    generateText: () =>
      Effect.sync(() => {
        const isLast = ++asked > Number(turns)
        return [
          isLast
            ? { type: "text" as const, text: "done" }
            : { type: "tool-call" as const, id: `step-${asked}`, name: "step", params: {} },
          {
            type: "finish" as const,
            reason: isLast ? ("stop" as const) : ("tool-calls" as const),
            usage,
            response: undefined
          }
        ]
      }),
    streamText: () => Stream.empty
  })
)
const walking = Walk.toLayer(() => ({ prompt: "Walk.", maxTurns: 1_000 })).pipe(
  Layer.provide([model, Toolbox.toLayer({ step: () => Effect.succeed("x".repeat(300)) })]),
  Layer.provideMerge(Tasks.layerSqlite({ lock: Effect.void })),
  Layer.provide(SqliteClient.layer({ filename }))
)

await Effect.runPromise(
  Effect.provide(
    Effect.flatMap(Walk.submit({ params: {}, key: "1" }), (id) => Walk.result(id)),
    walking
  )
)
