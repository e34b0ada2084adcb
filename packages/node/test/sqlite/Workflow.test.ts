/** effect/workflow with a single runner on a SQLite file, across a killed process. */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { join } from "node:path"
import * as Child from "../support/Child.ts"
import * as Folder from "../support/Folder.ts"

const program = new URL("../support/workflowWorker.ts", import.meta.url)

it.live(
  "continues after kill -9: finished activities are not repeated, the running one is",
  () =>
    Effect.gen(function* () {
      const path = join(yield* Folder.make, "tasks.db")
      const first = yield* Child.start(program, [path])
      yield* first.line("began pay 7")
      yield* first.line("began send 7")
      yield* first.signal("SIGKILL")
      yield* first.ended

      const second = yield* Child.start(program, [path])
      assert.strictEqual(yield* second.line("began"), "send 7")
      yield* second.send("go")
      assert.strictEqual(yield* second.line("result"), "paid and sent")

      const third = yield* Child.start(program, [path])
      // The only line, because no activity ran.
      assert.strictEqual(yield* third.line(""), "result paid and sent")
    }),
  60_000
)
