/** Cut texts can be read again, piece by piece. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Hash, Option, Stream } from "effect"
import { Prompt } from "effect/ai"
import { InvalidOption } from "@outlast/resilience"
import { Compaction } from "@outlast/agent"
import { Recall, RecallStore } from "@outlast/agent/compaction"
import { lorem, textOf, turn, user } from "./support.ts"

const ask = (params: { readonly id: string; readonly from?: number }) =>
  Effect.gen(function* () {
    const kit = yield* Recall.toolkit
    const results = yield* Stream.runCollect(Stream.unwrap(kit.handle("recall", params)))
    return String(results.at(-1)?.result)
  })

describe("the tool recall", () => {
  it.effect("returns the text that compaction cut, by the id in its place", () =>
    Effect.gen(function* () {
      const store = RecallStore.memory()
      const compaction = yield* Compaction.make({ store })
      const prompt = Prompt.fromMessages([
        user("Go."),
        ...Array.from({ length: 14 }, (_, i) => turn(`c${i}`, `${i} ${lorem(100)}`)).flat()
      ])
      const { prompt: after, report } = yield* compaction.fit(prompt, { window: 2_000 })
      for (const { recall, at } of report.dropped) {
        assert.include(textOf(after.content[at]), recall ?? "no id")
        const found = yield* ask({ id: recall ?? "" }).pipe(Effect.provide(Recall.layer(store)))
        assert.strictEqual(found, `${(at - 2) / 2} ${lorem(100)}`)
      }
    })
  )

  it.effect("tells texts with the same 32-bit hash apart", () =>
    Effect.gen(function* () {
      const store = RecallStore.memory()
      const compaction = yield* Compaction.make({ store })
      const results = ["636114", "pw41s6"].map((end) => `${"result of the search: ".repeat(20)}${end}`)
      assert.strictEqual(new Set(results.map(Hash.string)).size, 1)
      const prompt = Prompt.fromMessages([
        user("Go."),
        ...results.flatMap((result, i) => turn(`c${i}`, result)),
        ...Array.from({ length: 14 }, (_, i) => turn(`d${i}`, lorem(100))).flat()
      ])
      const { report } = yield* compaction.fit(prompt, { window: 2_000 })
      const cut = report.dropped.filter(({ call }) => call === "c0" || call === "c1")
      const found = yield* Effect.forEach(cut, ({ recall }) => store.get(recall ?? ""))
      assert.deepStrictEqual(found, results.map(Option.some))
    })
  )

  it.effect("returns long texts in pieces, and a sentence for an unknown id", () =>
    Effect.gen(function* () {
      const store = RecallStore.memory()
      yield* store.put("a", "0123456789")
      const wording = {
        unknown: (id: string) => `kein ${id}`,
        more: ({ to }: { readonly to: number }) => `…${to}`
      }
      const answers = Effect.forEach(
        [{ id: "a" }, { id: "a", from: 4 }, { id: "a", from: 99 }, { id: "b" }],
        ask
      )
      assert.deepStrictEqual(
        yield* answers.pipe(Effect.provide(Recall.layer(store, { maxCharacters: 4, wording }))),
        ["0123…4", "4567…8", "", "kein b"]
      )
      assert.include(
        (yield* answers.pipe(Effect.provide(Recall.layer(store))))[3],
        'Nothing is kept under "b"'
      )
      assert.throws(() => Recall.layer(store, { maxCharacters: 0 }), InvalidOption)
    })
  )
})

describe("the store in memory", () => {
  it.effect("is bounded: the oldest text is evicted first, and a text that is put again is the newest", () =>
    Effect.gen(function* () {
      const left = (store: RecallStore.RecallStore) =>
        Effect.gen(function* () {
          for (const id of ["a", "b", "c", "a", "d"]) yield* store.put(id, `text of ${id}`)
          const kept: Array<string> = []
          for (const id of ["a", "b", "c", "d"]) if (Option.isSome(yield* store.get(id))) kept.push(id)
          return kept.join("")
        })
      assert.strictEqual(yield* left(RecallStore.memory()), "abcd")
      assert.strictEqual(yield* left(RecallStore.memory({ maxTexts: 2 })), "ad")
      assert.strictEqual(yield* left(RecallStore.memory({ maxCharacters: 30 })), "acd")
      assert.throws(() => RecallStore.memory({ maxTexts: 0 }), InvalidOption)
    })
  )
})
