/** The bound of the runs of `outlast serve`, and what a client is told beyond it. */
import { assert, it } from "@effect/vitest"
import { Effect, Layer, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import { Host } from "@outlast/node"
import * as Workspace from "#cli/chat/Workspace"
import * as Requests from "#cli/serve/Requests"
import * as Runs from "#cli/serve/Runs"

/** A model that never answers. */
const silent = Layer.effect(
  LanguageModel.LanguageModel,
  LanguageModel.make({ generateText: () => Effect.never, streamText: () => Stream.never })
)
const said = () => Effect.succeed("nothing")
const tools = Workspace.kit.toLayer({ current_time: said, list_files: said, read_file: said })

it.effect("twenty runs run at a time, and the next one is refused until one has ended", () =>
  Effect.gen(function* () {
    const runs = yield* Runs.make(Effect.succeed({}))
    const start = Effect.flatMap(runs.start("tell me a joke"), (events) =>
      Effect.forkChild(Stream.runDrain(events ?? Stream.die("refused")), { startImmediately: true })
    )
    const first = yield* start
    for (let n = 1; n < 20; n++) yield* start
    assert.lengthOf(yield* runs.list, 20)
    assert.isUndefined(yield* runs.start("tell me a joke"))
    first.interruptUnsafe()
    yield* Effect.repeat(runs.list, { until: (all) => all.some(({ endedAt }) => endedAt !== undefined) })
    assert.isDefined(yield* runs.start("tell me a joke"))
  }).pipe(Effect.provide([silent, tools, Host.layer()]))
)

it.effect("a request that is refused for now says when to come again, and one that is wrong does not", () =>
  Effect.gen(function* () {
    const refused = (status: number) =>
      Requests.answered(Effect.fail(new Requests.Refused({ status, message: "no" })))
    assert.strictEqual((yield* refused(503)).headers["retry-after"], "5")
    assert.isUndefined((yield* refused(400)).headers["retry-after"])
  })
)
