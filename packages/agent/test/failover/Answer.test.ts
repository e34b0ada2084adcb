import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { Prompt } from "effect/ai"
import type { Response } from "effect/ai"
import type { CallState } from "@outlast/agent/failover"
import type { RecoveryPolicy } from "@outlast/agent"
import { Answer } from "#agent/failover/call/Answer"
import type { Part } from "../support.ts"
import { finish, keepAlive, text, thinking, toolCall } from "../support.ts"

const answered = { target: "vendor/m", provider: "vendor", model: "m", attempts: 1 }
const maker = { provider: "vendor", model: "m", endpoint: "https://vendor.example", key: "KEY" }
const anAttempt = { answered, maker, continues: undefined }

const opened = (midStream?: RecoveryPolicy.MidStream) => {
  const answer = new Answer("vendor/m", midStream)
  answer.begin(anAttempt)
  return answer
}

/** Returns the parts that the consumer sees of these attempts, without the finish part. */
const seen = (...attempts: ReadonlyArray<ReadonlyArray<Part>>): ReadonlyArray<Part> => {
  const answer = new Answer("vendor/m")
  return attempts.flatMap((parts) => {
    answer.begin(anAttempt)
    return answer.push(parts)
  })
}

const typesOf = (parts: ReadonlyArray<Part>) => parts.map((part) => part.type)
const idsOf = (parts: ReadonlyArray<Part>, type: Part["type"]) =>
  parts.flatMap((part) => (part.type === type && "id" in part ? [part.id] : []))
/** Returns the marks and signatures at the ends of thinking blocks. */
const endsOf = (parts: ReadonlyArray<Part>) =>
  parts.flatMap((part) => (part.type === "reasoning-end" ? [part.metadata] : []))

const source: Part = { type: "source", sourceType: "url", id: "s", url: "https://example.com", title: "s" }
const file: Part = { type: "file", mediaType: "text/plain", data: "aGk=" }

describe("the visible parts of one attempt", () => {
  it("the preamble waits for content, then keeps its order (zirkelc/ai-retry#51)", () => {
    const answer = opened()
    assert.deepStrictEqual(answer.push([keepAlive, source, file, text.start()]), [])
    assert.isFalse(answer.shown.isAlive)
    assert.deepStrictEqual(typesOf(answer.push([text.delta("a")])), [
      "response-metadata",
      "source",
      "file",
      "text-start",
      "text-delta"
    ])
    assert.isTrue(answer.shown.isAlive)
  })

  it("sources and files between texts keep their place", () => {
    const parts = seen([
      text.start(),
      text.delta("a"),
      source,
      text.delta("b"),
      file,
      text.delta("c"),
      finish()
    ])
    assert.deepStrictEqual(typesOf(parts), [
      "text-start",
      "text-delta",
      "source",
      "text-delta",
      "file",
      "text-delta",
      "text-end"
    ])
  })

  it("an empty delta is not content", () => {
    const answer = opened()
    assert.deepStrictEqual(answer.push([text.start(), text.delta("")]), [])
    assert.deepStrictEqual(
      [answer.shown.commit, answer.shown.isAlive, answer.shown.text.all],
      ["nothing", false, ""]
    )
  })

  it("a late signature passes on an empty delta, and is not content", () => {
    const late: Part = { type: "text-delta", id: "0", delta: "", metadata: { vendor: { signature: "late" } } }
    const answer = opened()
    assert.deepStrictEqual(answer.push([text.start(), late]), [])
    assert.strictEqual(answer.shown.commit, "nothing")
    assert.deepStrictEqual(answer.push([text.delta("a")])[1], late)
    assert.deepStrictEqual(answer.push([late]), [late])
    assert.strictEqual(answer.shown.text.all, "a")
  })

  it("tool calls are held until the finish, and later parts do not overtake them", () => {
    const answer = opened()
    const behind = [toolCall("1"), source, ...text.block("b", "1"), toolCall("2"), file]
    const before = answer.push([text.start(), text.delta("a"), text.end(), ...behind])
    assert.deepStrictEqual(typesOf(before), ["text-start", "text-delta", "text-end"])
    assert.deepStrictEqual(
      [answer.shown.text.all, answer.shown.isAlive, answer.shown.commit],
      ["a", true, "text"]
    )
    const after = answer.push([finish("tool-calls")])
    assert.deepStrictEqual(typesOf(after), [
      "tool-call",
      "source",
      "text-start",
      "text-delta",
      "text-end",
      "tool-call",
      "file"
    ])
    assert.deepStrictEqual(idsOf(after, "tool-call"), ["1", "2"])
    assert.strictEqual(answer.shown.text.all, "ab")
  })

  it("the parameters of a call are held with the call", () => {
    const answer = opened()
    const made = { outlast: maker }
    const params: ReadonlyArray<Part> = [
      { type: "tool-params-start", id: "1", name: "search" },
      { type: "tool-params-delta", id: "1", delta: "{}" },
      { type: "tool-params-end", id: "1" },
      toolCall("1"),
      { type: "tool-approval-request", approvalId: "a", toolCallId: "1" }
    ]
    assert.deepStrictEqual(answer.push(params), [])
    assert.deepStrictEqual([answer.shown.commit, answer.shown.isAlive], ["nothing", true])
    assert.deepStrictEqual(
      answer.push([finish("tool-calls")]),
      params.map((part) => (part.type === "tool-call" ? { ...part, metadata: made } : part))
    )
    for (const part of params.filter(
      ({ type }) => type === "tool-params-start" || type === "tool-approval-request"
    )) {
      assert.deepStrictEqual(opened().push([part]), [])
    }
  })

  it("40,000 deltas of held calls leave as one for each call, also where two calls come in turn", () => {
    const answer = opened()
    const params = (type: "start" | "end", id: string): Part =>
      type === "start" ? { type: "tool-params-start", id, name: "f" } : { type: "tool-params-end", id }
    const delta = (id: string, delta: string): Part => ({ type: "tool-params-delta", id, delta })
    answer.push([params("start", "a"), delta("a", "["), params("start", "b"), delta("b", "[")])
    for (let n = 0; n < 20_000; n++) answer.push([delta("a", `${n},`), delta("b", `${-n},`)])
    answer.push([delta("a", "0]"), params("end", "a"), delta("b", "0]"), params("end", "b")])
    const out = answer.push([toolCall("a"), toolCall("b"), finish("tool-calls")])
    const deltas = out.flatMap((part) => (part.type === "tool-params-delta" ? [part] : []))
    assert.deepStrictEqual(
      deltas.map(({ id }) => id),
      ["a", "b"]
    )
    assert.deepStrictEqual(
      deltas.map(({ delta }) => (JSON.parse(delta) as ReadonlyArray<number>).slice(19_998)),
      [
        [19_998, 19_999, 0],
        [-19_998, -19_999, 0]
      ]
    )
  })

  it("held texts and thinking are joined where they follow each other, and keep their places and metadata", () => {
    const answer = opened()
    const signed: Part = { ...text.delta("c"), metadata: { anthropic: { cited: true } } }
    answer.push([toolCall("call"), text.start(), text.delta("a"), text.delta("b"), signed])
    answer.push([text.delta("d"), source, text.delta("e"), text.delta("f"), text.end()])
    answer.push([thinking.start(), thinking.delta("x"), thinking.delta("y"), thinking.end("s")])
    const out = answer.push([finish("tool-calls")])
    assert.deepStrictEqual(
      out.flatMap((part) => ("delta" in part ? [part.delta] : part.type === "source" ? ["source"] : [])),
      ["ab", "c", "d", "source", "ef", "xy"]
    )
    assert.deepStrictEqual(
      out.filter((part) => part.type === "text-delta" && part.metadata !== undefined),
      [signed]
    )
  })

  it("a tool that the provider runs is visible at once, and commits the attempt", () => {
    const answer = opened()
    const call = toolCall("1", { providerExecuted: true })
    assert.deepStrictEqual(answer.push([call]), [{ ...call, metadata: { outlast: maker } }])
    assert.strictEqual(answer.shown.commit, "tool")
    answer.push([...text.block("and then"), ...thinking.block("so", "s")])
    assert.strictEqual(answer.shown.commit, "tool")
  })

  it("thinking after text does not change the commit", () => {
    const answer = opened()
    answer.push([thinking.start(), thinking.delta("so")])
    assert.strictEqual(answer.shown.commit, "reasoning")
    answer.push([text.start(), text.delta("a"), ...thinking.block("more", "s", "r2")])
    assert.strictEqual(answer.shown.commit, "text")
  })

  it("parts after the finish are not read", () => {
    const answer = opened()
    const parts = answer.push([...text.block("a"), finish(), ...text.block("b", "1"), finish("error")])
    assert.strictEqual(answer.shown.text.all, "a")
    assert.deepStrictEqual(typesOf(parts), ["text-start", "text-delta", "text-end"])
    assert.deepStrictEqual(answer.push([text.delta("c"), { type: "error", error: "late" }]), [])
    assert.deepStrictEqual(answer.end, { _tag: "Whole", finish: finish() })
  })

  it("parts after an error, or after a finish with the reason error, are not read", () => {
    for (const end of [{ type: "error", error: "no" } as const, finish("error")]) {
      const answer = opened()
      const parts = answer.push([text.start(), text.delta("a"), end, text.delta("b"), finish()])
      assert.deepStrictEqual(typesOf(parts), ["text-start", "text-delta"])
      assert.deepStrictEqual(answer.end, { _tag: "Failed", part: end, problem: undefined })
    }
  })

  it("the finish closes open blocks", () => {
    const parts = seen([thinking.start(), thinking.delta("so"), text.start(), text.delta("a"), finish()])
    assert.deepStrictEqual(typesOf(parts).slice(-2), ["reasoning-end", "text-end"])
  })

  it("two texts of one attempt stay two", () => {
    const parts = seen([...text.block("a", "0"), ...text.block("b", "1"), finish()])
    assert.deepStrictEqual(typesOf(parts), [
      "text-start",
      "text-delta",
      "text-end",
      "text-start",
      "text-delta",
      "text-end"
    ])
    assert.deepStrictEqual(idsOf(parts, "text-delta"), ["0", "1"])
  })

  it("the signatures of an answer's thinking are kept", () => {
    const parts = seen([...thinking.block("one", "s1", "r1"), ...thinking.block("two", "s2", "r2"), finish()])
    assert.deepStrictEqual(endsOf(parts), [{ vendor: { signature: "s1" } }, { vendor: { signature: "s2" } }])
  })
})

describe("the end of a block", () => {
  const thought = thinking.block("so", "s")

  it("of thinking passes before the first text, which no other attempt replaces (vibest-dev/vibest#289)", () => {
    const answer = opened()
    assert.deepStrictEqual(typesOf(answer.push([...thought, text.start()])), [
      "reasoning-start",
      "reasoning-delta"
    ])
    assert.deepStrictEqual(typesOf(answer.push([text.delta("a")])), [
      "reasoning-end",
      "text-start",
      "text-delta"
    ])
    assert.deepStrictEqual(typesOf(answer.push(thinking.block("more", "s", "r2"))), [
      "reasoning-start",
      "reasoning-delta",
      "reasoning-end"
    ])
    assert.deepStrictEqual(typesOf(answer.push([text.delta("b"), finish()])), ["text-delta", "text-end"])
  })

  it("of thinking passes after the text too, if it arrives late", () => {
    const answer = opened()
    answer.push([thinking.start(), thinking.delta("so"), text.start(), text.delta("a")])
    assert.deepStrictEqual(typesOf(answer.push([thinking.end("s")])), ["reasoning-end"])
  })

  it("of thinking passes before a tool that the provider runs", () => {
    const parts = opened().push([...thought, toolCall("1", { providerExecuted: true })])
    assert.deepStrictEqual(typesOf(parts), [
      "reasoning-start",
      "reasoning-delta",
      "reasoning-end",
      "tool-call"
    ])
  })

  it("of thinking is held while only a tool call follows, because the attempt may be replaced", () => {
    const answer = opened()
    assert.deepStrictEqual(typesOf(answer.push([...thought, toolCall("1")])), [
      "reasoning-start",
      "reasoning-delta"
    ])
    assert.deepStrictEqual(typesOf(answer.push([finish("tool-calls")])), ["reasoning-end", "tool-call"])
  })

  it("of seen thinking is not marked when the text after it is continued", () => {
    const parts = seen([...thought, text.start(), text.delta("a")], [...text.block("b"), finish()])
    assert.deepStrictEqual(endsOf(parts), [{ vendor: { signature: "s" } }])
    assert.deepStrictEqual(typesOf(parts).slice(-4), ["text-start", "text-delta", "text-delta", "text-end"])
  })

  it("of a text without content is not visible when the attempt is replaced", () => {
    const parts = seen([...thought, text.start("1"), text.end("1")], [...text.block("b"), finish()])
    assert.deepStrictEqual(typesOf(parts), [
      "reasoning-start",
      "reasoning-delta",
      "reasoning-end",
      "text-start",
      "text-delta",
      "text-end"
    ])
    assert.deepStrictEqual(endsOf(parts), [{ vendor: { signature: "s" }, outlast: { partial: true } }])
  })

  it("of a text is held as long as a continuation may extend the block", () => {
    const answer = opened()
    assert.deepStrictEqual(typesOf(answer.push(text.block("a"))), ["text-start", "text-delta"])
    assert.deepStrictEqual(typesOf(answer.push([toolCall("1")])), ["text-end"])
  })

  it("of a text passes at once when no attempt continues it", () => {
    assert.deepStrictEqual(typesOf(opened("fail").push(text.block("a"))), [
      "text-start",
      "text-delta",
      "text-end"
    ])
    const behindTool = opened().push([toolCall("1", { providerExecuted: true }), ...text.block("a")])
    assert.deepStrictEqual(typesOf(behindTool).slice(-1), ["text-end"])
  })

  it("is held until the finish when the answer may begin again", () => {
    const answer = opened("restart")
    assert.deepStrictEqual(typesOf(answer.push([...thought, ...text.block("a"), toolCall("1")])), [
      "reasoning-start",
      "reasoning-delta",
      "text-start",
      "text-delta"
    ])
    assert.deepStrictEqual(typesOf(answer.push([finish("tool-calls")])), [
      "reasoning-end",
      "text-end",
      "tool-call"
    ])
  })

  it("of a text passes before a tool call; after a cut call the continuation has its own block", () => {
    const parts = seen([...text.block("a"), toolCall("1")], [...text.block("b"), finish()])
    assert.deepStrictEqual(typesOf(parts), [
      "text-start",
      "text-delta",
      "text-end",
      "text-start",
      "text-delta",
      "text-end"
    ])
    assert.strictEqual(new Set(idsOf(parts, "text-start")).size, 2)
  })
})

describe("the visible parts of several attempts", () => {
  it("an attempt that fails before its content is not visible", () => {
    const dead = [keepAlive, source, text.start(), text.delta(""), toolCall("1")]
    const parts = seen(dead, [...text.block("a"), finish()])
    assert.deepStrictEqual(typesOf(parts), ["text-start", "text-delta", "text-end"])
    assert.notInclude(JSON.stringify(parts), "source")
  })

  it("an answer that is continued is one text", () => {
    const parts = seen([text.start(), text.delta("a")], [...text.block("b")], [...text.block("c"), finish()])
    assert.deepStrictEqual(typesOf(parts), [
      "text-start",
      "text-delta",
      "text-delta",
      "text-delta",
      "text-end"
    ])
    assert.deepStrictEqual(
      parts.flatMap((part) => ("id" in part ? [part.id] : [])),
      ["0", "0", "0", "0", "0"]
    )
  })

  it("an answer that is continued after thinking is one text, although it seemed to have ended", () => {
    const parts = seen(text.block("a"), [...thinking.block("so", "s"), ...text.block("b"), finish()])
    assert.deepStrictEqual(typesOf(parts), [
      "text-start",
      "text-delta",
      "reasoning-start",
      "reasoning-delta",
      "reasoning-end",
      "text-delta",
      "text-end"
    ])
  })

  it("an attempt that fails before its content does not close the text that another continues", () => {
    const parts = seen(
      [text.start(), text.delta("a")],
      [text.start(), text.end(), text.start("1")],
      [...text.block("b"), finish()]
    )
    assert.deepStrictEqual(typesOf(parts), ["text-start", "text-delta", "text-delta", "text-end"])
  })

  it("only the first text of an attempt continues; the next one is separate, under its own id", () => {
    const parts = seen(
      [text.start(), text.delta("a")],
      [...text.block("b"), ...text.block("c", "1"), finish()]
    )
    assert.deepStrictEqual(typesOf(parts), [
      "text-start",
      "text-delta",
      "text-delta",
      "text-end",
      "text-start",
      "text-delta",
      "text-end"
    ])
    const ids = idsOf(parts, "text-delta")
    assert.strictEqual(ids[0], ids[1])
    assert.notStrictEqual(ids[1], ids[2])
  })

  it("an open text is closed when no attempt continues it", () => {
    const parts = seen([text.start(), text.delta("a")], [finish()])
    assert.deepStrictEqual(typesOf(parts), ["text-start", "text-delta", "text-end"])
  })

  it("thinking of a failed attempt is closed and marked, complete or not", () => {
    const parts = seen(
      [...thinking.block("whole", "s1", "r1"), thinking.start("r2"), thinking.delta("open", "r2")],
      [...thinking.block("again", "s2", "r1"), ...text.block("a"), finish()]
    )
    assert.deepStrictEqual(endsOf(parts), [
      { vendor: { signature: "s1" }, outlast: { partial: true } },
      { outlast: { partial: true } },
      { vendor: { signature: "s2" } }
    ])
    assert.deepStrictEqual(new Set(idsOf(parts, "reasoning-end")), new Set(idsOf(parts, "reasoning-start")))
    assert.strictEqual(new Set(idsOf(parts, "reasoning-start")).size, 3)
  })

  it("thinking is marked although two attempts failed after it", () => {
    const parts = seen([thinking.start(), thinking.delta("so")], [keepAlive], [...text.block("a"), finish()])
    assert.deepStrictEqual(endsOf(parts), [{ outlast: { partial: true } }])
  })

  it("the commit is that of the current attempt", () => {
    const answer = opened()
    answer.push([toolCall("1", { providerExecuted: true })])
    answer.begin(anAttempt)
    assert.deepStrictEqual(
      [answer.shown.commit, answer.shown.isAlive, answer.end],
      ["nothing", false, undefined]
    )
  })
})

describe("thinking that was cut", () => {
  const continuing = { ...anAttempt, continues: "cut" } as const
  const cut = finish("length")
  /** Returns the parts of a cut attempt, and of one that continues it. */
  const continued = (first: ReadonlyArray<Part>, second: ReadonlyArray<Part>) => {
    const answer = opened()
    const before = answer.push([...first, cut])
    answer.begin(continuing)
    return [...before, ...answer.push(second)]
  }
  const begun = [thinking.start(), thinking.delta("I think so")]
  const saidOf = (parts: ReadonlyArray<Part>) =>
    parts.map((part) => ("delta" in part ? part.delta : part.type))

  it("is continued in its block, which is never sent again", () => {
    const parts = continued(begun, [...thinking.block(", and so on", "s"), ...text.block("a"), finish()])
    assert.deepStrictEqual(saidOf(parts), [
      "reasoning-start",
      "I think so",
      ", and so on",
      "reasoning-end",
      "text-start",
      "a",
      "text-end"
    ])
    assert.deepStrictEqual(endsOf(parts), [{ vendor: { signature: "s" }, outlast: { partial: true } }])
  })

  it("is not shown again when the model repeats it", () => {
    const parts = continued(begun, [...thinking.block("I think so and so on", "s"), ...text.block("a")])
    assert.deepStrictEqual(saidOf(parts).slice(0, 4), [
      "reasoning-start",
      "I think so",
      " and so on",
      "reasoning-end"
    ])
  })

  it("ends before the text of a continuation that does not think", () => {
    const parts = continued(begun, [...text.block("a"), finish()])
    assert.deepStrictEqual(saidOf(parts), [
      "reasoning-start",
      "I think so",
      "reasoning-end",
      "text-start",
      "a",
      "text-end"
    ])
    assert.deepStrictEqual(endsOf(parts), [{ outlast: { partial: true } }])
  })

  it("ends marked when its continuation fails, and another attempt begins anew", () => {
    const answer = opened()
    const parts = answer.push([...begun, cut])
    for (const attempt of [continuing, { ...anAttempt, continues: "interrupted" } as const]) {
      answer.begin(attempt)
      parts.push(
        ...answer.push(attempt === continuing ? [keepAlive] : [...thinking.block("so", "s"), finish()])
      )
    }
    assert.deepStrictEqual(saidOf(parts).slice(2), [
      "reasoning-end",
      "reasoning-start",
      "so",
      "reasoning-end"
    ])
    assert.deepStrictEqual(endsOf(parts), [{ outlast: { partial: true } }, { vendor: { signature: "s" } }])
  })
})

describe("what was shown and is void", () => {
  it("has no end of a block that was not shown", () => {
    const answer = opened("restart")
    answer.push([text.start(), text.delta("a")])
    answer.begin(anAttempt)
    answer.push([keepAlive, ...text.block("", "1"), thinking.start("2")])
    assert.deepStrictEqual(typesOf(answer.rewind()), ["text-end", "response-metadata"])
  })
})

it("a text and thinking of a later attempt may have the same id", () => {
  const parts = seen(
    [text.start(), text.delta("a ")],
    [
      text.start("x"),
      text.delta("b", "x"),
      thinking.start("x"),
      thinking.delta("so", "x"),
      text.delta(" c", "x")
    ]
  )
  const ids = idsOf(parts, "text-delta")
  assert.deepStrictEqual(ids, ["0", "0", "0"])
})

it("a cut answer that is delivered keeps its order", () => {
  const answer = opened()
  const search = toolCall("s", { providerExecuted: true })
  answer.push([source, toolCall("1"), search, ...text.block("a"), finish("length")])
  const { out } = answer.deliverCut()
  assert.deepStrictEqual(typesOf(out), ["source", "tool-call", "text-start", "text-delta", "text-end"])
})

it("the block of an object is open until the rest of its text is shown", () => {
  const answer = new Answer("vendor/m", "continue", true)
  answer.begin(anAttempt)
  const parts = answer.push([
    ...text.block('Here:\n```json\n{"a":1}\n```\n', "0"),
    ...thinking.block("so", "s"),
    finish()
  ])
  assert.strictEqual(answer.shown.text.all, '{"a":1}')
  assert.deepStrictEqual(typesOf(parts), [
    "text-start",
    "reasoning-start",
    "reasoning-delta",
    "reasoning-end",
    "text-delta",
    "text-end"
  ])
})

describe("the author of a part", () => {
  const other = { ...maker, model: "other" }
  // A first attempt at the requested target does not record its number of attempts.
  const { attempts: _one, ...by } = answered
  const makersOf = (parts: ReadonlyArray<Part>) =>
    Prompt.fromResponseParts(
      parts.map((part) => ({ metadata: {}, ...part }) as Response.AnyPart)
    ).content.flatMap(({ content }) =>
      typeof content === "string" ? [] : content.map(({ type, options }) => [type, options["outlast"]])
    )

  it("is recorded on every part that can have a signature (can1357/oh-my-pi#6379)", () => {
    const parts = seen([...thinking.block("so", "s"), ...text.block("a"), file, toolCall("1"), finish()])
    assert.deepStrictEqual(makersOf(parts), [
      ["reasoning", maker],
      ["text", { ...by, ...maker }],
      ["file", maker],
      ["tool-call", maker]
    ])
  })

  it("is not recorded for a text that another attempt continued, because no signature would be valid", () => {
    const answer = opened()
    const first = answer.push([text.start(), text.delta("The quick brown ")])
    answer.begin({ ...anAttempt, maker: other })
    const parts = [...first, ...answer.push([...text.block("fox"), toolCall("1"), finish()])]
    assert.deepStrictEqual(makersOf(parts), [
      ["text", { ...by, ...maker, continued: true }],
      ["tool-call", { ...other, continued: true }]
    ])
  })
})

describe("text that is held back at the join", () => {
  const said = "The quick brown fox jumps over the lazy dog"
  const before: ReadonlyArray<Part> = [text.start(), text.delta(said)]
  const again = " lazy dog"
  const opening = [text.start(), text.delta(again)]

  it("does not commit until it is visible, but ends the silence", () => {
    const answer = opened()
    answer.push(before)
    answer.begin(anAttempt)
    assert.deepStrictEqual(answer.push(opening), [])
    assert.deepStrictEqual(
      [answer.shown.commit, answer.shown.isAlive, answer.shown.text.all, answer.seam],
      ["nothing", true, said, undefined]
    )
    assert.deepStrictEqual(answer.push([text.delta("!")]), [text.delta(`${again}!`)])
    assert.deepStrictEqual([answer.shown.commit, answer.seam?.doubt], ["text", "short"])
  })

  it("comes before the parts after it: thinking, another text, a provider's tool, a call after the finish", () => {
    for (const next of [
      thinking.block("so", "s"),
      text.block("b", "1"),
      [toolCall("1", { providerExecuted: true })],
      [toolCall("1")]
    ]) {
      const deltas = seen(before, [...opening, ...next, finish()]).flatMap((part) =>
        part.type === "text-delta" ? [part.delta] : part.type.endsWith("-start") ? [] : [part.type]
      )
      assert.deepStrictEqual(deltas.slice(0, 2), [said, again])
      assert.isAbove(deltas.length, 2)
    }
  })

  it("keeps the metadata that providers add to its deltas", () => {
    const metadata = { vendor: { cites: 1 } }
    const parts = seen(before, [
      text.start(),
      { type: "text-delta", id: "0", delta: "fox jumps over", metadata },
      text.delta(" the lazy dog, and"),
      finish()
    ])
    assert.deepStrictEqual(parts[2], { type: "text-delta", id: "0", delta: ", and", metadata })
  })

  it("is also joined to a text that had ended for the consumer", () => {
    const parts = seen(
      [...before, text.end(), ...thinking.block("so", "s")],
      [...text.block("fox jumps over the lazy dog, and"), finish()]
    )
    assert.deepStrictEqual(
      parts.flatMap((part) => (part.type === "text-delta" ? [part.delta] : [])),
      [said, ", and"]
    )
  })
})

// -----------------------------------------------------------------------------
// Whatever a provider sends
// -----------------------------------------------------------------------------

const delta = fc.constantFrom("", "a", "b ", "cd")
const deltas = fc.array(delta, { minLength: 1, maxLength: 3 })

/** One block or part of an attempt. `n` makes its id unique within the attempt, as providers do. */
const block: fc.Arbitrary<(n: number) => ReadonlyArray<Part>> = fc.oneof(
  fc.constantFrom<Part>(keepAlive, source, file).map((part) => () => [part]),
  deltas.map((said) => (n: number): ReadonlyArray<Part> => [
    text.start(`${n}`),
    ...said.map((each) => text.delta(each, `${n}`)),
    text.end(`${n}`)
  ]),
  // Some providers never end their thinking.
  fc.tuple(deltas, fc.boolean()).map(([said, ends]) => (n: number): ReadonlyArray<Part> => [
    thinking.start(`${n}`),
    ...said.map((each) => thinking.delta(each, `${n}`)),
    ...(ends ? [thinking.end("s", `${n}`)] : [])
  ]),
  fc.boolean().map((providerExecuted) => (n: number) => [toolCall(`${n}`, { providerExecuted })])
)

/** An attempt, cut at a random place. */
const attempt = fc
  .tuple(fc.array(block, { maxLength: 6 }), fc.nat(20))
  .map(([blocks, cut]) => blocks.flatMap((make, n) => make(n)).slice(0, cut))

/** The modes in which another attempt may follow seen text. */
const mode = fc.constantFrom("continue" as const, "restart" as const)

const rank: Record<CallState.Commit, number> = { nothing: 0, reasoning: 1, text: 2, tool: 3 }

describe("any stream of a provider", () => {
  it("never lowers the commit within an attempt, and visible parts imply their commit", () => {
    fc.assert(
      fc.property(attempt, (parts) => {
        const answer = opened()
        let before = rank[answer.shown.commit]
        for (const part of parts) {
          for (const { type } of answer.push([part])) {
            if (type === "text-delta") assert.isAtLeast(rank[answer.shown.commit], rank.text)
            if (type === "reasoning-delta") assert.isAtLeast(rank[answer.shown.commit], rank.reasoning)
            if (type === "tool-call") assert.strictEqual(answer.shown.commit, "tool")
          }
          assert.isAtLeast(rank[answer.shown.commit], before)
          before = rank[answer.shown.commit]
        }
      })
    )
  })

  it("has blocks that begin once, contain their deltas and end once, and no program call before the finish", () => {
    fc.assert(
      fc.property(fc.array(attempt, { maxLength: 4 }), attempt, mode, (failed, last, midStream) => {
        const answer = new Answer("vendor/m", midStream)
        const open = new Map<string, string>()
        const begun = new Set<string>()
        const read = (parts: ReadonlyArray<Part>, finished: boolean) => {
          for (const part of parts) {
            if (part.type === "tool-call") assert.isTrue(finished || part.providerExecuted)
            const [kind = "", stage] = part.type.split("-")
            if ((kind !== "text" && kind !== "reasoning") || !("id" in part) || part.id === undefined)
              continue
            if (stage === "start") {
              assert.isFalse(begun.has(part.id))
              begun.add(part.id)
              open.set(part.id, kind)
            } else {
              assert.strictEqual(open.get(part.id), kind)
              if (stage === "end") open.delete(part.id)
            }
          }
        }
        let said = ""
        for (const parts of [...failed, last]) {
          answer.begin(anAttempt)
          const out = answer.push(parts)
          read(out, false)
          said += out.map((part) => (part.type === "text-delta" ? part.delta : "")).join("")
          assert.strictEqual(answer.shown.text.all, said)
        }
        read(answer.push([finish()]), true)
        assert.deepStrictEqual([...open], [])
      })
    )
  })

  it("restores an answer that is cut repeatedly by attempts that repeat its end", () => {
    const whole =
      "Seven voted for the repair, two against, and one was asleep. Work begins on Monday at nine, if it is dry."
    const cuts = fc.uniqueArray(fc.integer({ min: 24, max: whole.length - 1 }), {
      minLength: 1,
      maxLength: 4
    })
    fc.assert(
      fc.property(
        cuts,
        fc.integer({ min: 24, max: 80 }),
        fc.integer({ min: 1, max: 30 }),
        (at, again, size) => {
          const ends = [...at.sort((a, b) => a - b), whole.length]
          const answer = opened()
          let out: ReadonlyArray<Part> = []
          for (const end of ends) {
            if (end !== ends[0]) answer.begin(anAttempt)
            // Text that was held back at the cut is sent again.
            const from = answer.shown.text.all === "" ? 0 : Math.max(0, answer.shown.text.all.length - again)
            const said = whole.slice(from, end)
            const deltas = said.match(new RegExp(`.{1,${size}}`, "gs")) ?? []
            out = [...out, ...answer.push([text.start(), ...deltas.map((delta) => text.delta(delta))])]
            assert.isTrue(whole.startsWith(answer.shown.text.all))
          }
          out = [...out, ...answer.push([text.end(), finish()])]
          assert.strictEqual(answer.shown.text.all, whole)
          assert.deepStrictEqual(
            typesOf(out).filter((type) => type !== "text-delta"),
            ["text-start", "text-end"]
          )
        }
      )
    )
  })

  it("gives the same result however the parts are split", () => {
    fc.assert(
      fc.property(attempt, (parts) => {
        const all = [...parts, finish()]
        const one = opened()
        const many = opened()
        assert.deepStrictEqual(
          all.flatMap((part) => many.push([part])),
          one.push(all)
        )
        assert.strictEqual(many.shown.commit, one.shown.commit)
      })
    )
  })
})

it("text is kept where an attempt may continue it or an object is read from it, and nowhere else", () => {
  const kept = (["continue", "restart", "fail"] as const).flatMap((midStream) =>
    [false, true].map((structured) => {
      const answer = new Answer("v/m", midStream, structured)
      answer.begin(anAttempt)
      answer.push([...text.block('{"a":1}'), text.delta("")])
      return [midStream, structured, answer.shown.text.all, answer.shown.gained]
    })
  )
  assert.deepStrictEqual(kept, [
    ["continue", false, '{"a":1}', 7],
    ["continue", true, '{"a":1}', 7],
    ["restart", false, '{"a":1}', 7],
    ["restart", true, '{"a":1}', 7],
    ["fail", false, "", 7],
    ["fail", true, '{"a":1}', 7]
  ])
})
