/** What a service remembers of a conversation, restored in another process. */
import { assert, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { Prompt } from "effect/ai"
import { Compaction } from "@outlast/agent"
import { Memory } from "#agent/compaction/Memory"

const prompt = Prompt.make("a few words of a conversation that is counted. ".repeat(200))
const request = { window: 100_000, model: "m", conversation: "c" }

it.effect("a restored conversation keeps its turns and the learned token counts", () =>
  Effect.gen(function* () {
    const first = yield* Compaction.make()
    const before = yield* first.fit(prompt, request)
    yield* first.learn({ prompt, model: "m", inputTokens: 2 * before.report.tokensBefore })
    const memory = yield* first.remembered("c", "m")
    assert.strictEqual(memory.thrash.turn, 1)

    const codec = Schema.toCodecJson(Memory)
    const written = JSON.stringify(Schema.encodeUnknownSync(codec)(memory))
    assert.isBelow(written.length, 2_048)
    const second = yield* Compaction.make()
    yield* second.restore("other", Schema.decodeUnknownSync(codec)(JSON.parse(written)))
    const after = yield* second.fit(prompt, { ...request, conversation: "other" })
    assert.isAbove(after.report.tokensBefore, 1.5 * before.report.tokensBefore)
    assert.strictEqual((yield* second.remembered("other", "m")).thrash.turn, 2)
  }).pipe(Effect.scoped)
)
