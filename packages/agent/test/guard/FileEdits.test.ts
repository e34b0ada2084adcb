/** Files that a call edits, and the limit of edits per file. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, SafetyGuard } from "@outlast/agent"
import { model, over, stopOf, words } from "./support.ts"

describe("files that one call edits", () => {
  const Many = Toolkit.make(
    Tool.make("apply_patch", {
      parameters: Schema.Record(Schema.String, Schema.Unknown),
      success: Schema.String
    })
  )
  /** Makes numbered calls until the third edit of a file stops the run. */
  const edited = (
    params: (n: number) => { readonly [name: string]: Schema.Json },
    options?: SafetyGuard.Options
  ) =>
    Effect.gen(function* () {
      let ran = 0
      const layer = Many.toLayer({ apply_patch: () => Effect.sync(() => `patched, ${words(ran++)}`) })
      const target = yield* model({
        answers: ({ turn }) => ({ toolCalls: [{ name: "apply_patch", params: params(turn) }] })
      })
      const { reason, subject, counts } = yield* Agent.run({ prompt: "x", toolkit: Many }).pipe(
        SafetyGuard.run({ fileEdits: 2, toolCalls: 6, loops: false, ...options }),
        stopOf,
        Effect.provide([layer, over(target)])
      )
      return { reason, subject, ran, files: counts.files }
    })
  const hunk = (n: number) => `@@\n-old ${n}\n+new ${n}\n`

  it.effect("are all counted, in any form of list", () =>
    Effect.gen(function* () {
      for (const params of [
        (n: number) => ({
          input: `*** Begin Patch\n*** Update File: n${n}.ts\n${hunk(n)}*** Add File: b.ts\n+${n}\n*** End Patch`
        }),
        (n: number) => ({
          patch: `--- a/n${n}.ts\n+++ b/n${n}.ts\n${hunk(n)}--- a/b.ts\t1\n+++ b/b.ts\t2\n@@\n+++ c${n}\n`
        }),
        (n: number) => ({
          edits: [`n${n}.ts`, "./b.ts"].map((path) => ({ path, old: `${n}`, new: `x${n}` }))
        }),
        (n: number) => ({ files: [`n${n}.ts`, "b.ts"].map((path) => ({ path, content: `text ${n}` })) }),
        (n: number) => ({
          path: "b.ts",
          content: `text ${n}`,
          files: [{ path: `n${n}.ts`, content: `text ${n}` }]
        }),
        (n: number) => ({
          patch: `--- a/n${n}.ts\r\n+++ b/n${n}.ts\r\n${hunk(n)}--- a/b.ts\r\n+++ b/b.ts\r\n@@\r\n+${n}\r\n`
        })
      ]) {
        const stop = yield* edited(params)
        // The third call did not run, so it edited neither file.
        assert.deepStrictEqual(stop, { reason: "file_loop", subject: "b.ts", ran: 2, files: 3 })
      }
    })
  )

  it.effect("count once each, without files that are deleted or only read", () =>
    Effect.gen(function* () {
      const once = yield* edited((n) => ({
        edits: ["a.ts", "./a.ts", "a.ts"].map((path) => ({ path, old: `${n}`, new: `x${n}` }))
      }))
      assert.deepStrictEqual(once, { reason: "file_loop", subject: "a.ts", ran: 2, files: 1 })
      for (const params of [
        (n: number) => ({ patch: `--- a/n${n}.ts\n+++ /dev/null\n@@\n-old ${n}\n` }),
        (n: number) => ({ files: [{ path: "a.ts", line: n }] })
      ]) {
        assert.deepInclude(yield* edited(params), { reason: "max_tool_calls", files: 0 })
      }
    })
  )

  it.effect("are counted next to any other arguments", () =>
    Effect.gen(function* () {
      for (const beside of [
        { method: "GET", url: "https://a.test" },
        { sql: "select 1" },
        { action: "view" }
      ]) {
        const stop = yield* edited((n) => ({ path: "a.ts", content: `text ${n}`, ...beside }))
        assert.deepStrictEqual(stop, { reason: "file_loop", subject: "a.ts", ran: 2, files: 1 })
      }
    })
  )

  it.effect("are returned by a custom `fileOf`", () =>
    Effect.gen(function* () {
      const stop = yield* edited((n) => ({ n }), { fileOf: () => ["a", "b", "a"] })
      assert.deepStrictEqual(stop, { reason: "file_loop", subject: "a", ran: 2, files: 2 })
    })
  )

  it.effect("are shortened in every report when their names are long", () =>
    Effect.gen(function* () {
      const path = "a".repeat(1_000_000)
      const stop = yield* edited((n) => ({ path, content: `${n}` }))
      assert.deepStrictEqual(stop, { reason: "file_loop", subject: path.slice(0, 200), ran: 2, files: 1 })
    })
  )
})
