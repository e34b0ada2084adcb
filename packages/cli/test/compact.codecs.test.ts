/** The formats that `outlast compact` reads and writes: what they keep and what they cut. */
import { Effect, Ref } from "effect"
import { Chat } from "effect/ai"
import type { Prompt } from "effect/ai"
import * as fc from "fast-check"
import { assert, describe, it } from "vitest"
import * as Scenario from "../../../test/fixtures/transcripts/scenario.ts"
import * as Wire from "../../../test/fixtures/transcripts/wire.ts"
import type { Json as Body } from "./transcripts.ts"
import { assertValid, compact, listOf, problemOf, read, refusalOf, tokensOf } from "./transcripts.ts"
import * as Sweeps from "../../../test/sweeps.ts"

const long = (word: string) => `${word} `.repeat(400).trim()

/** Cuts a body to a window so small that everything possible is cut. */
const cutTo = async (body: Body, window: number) => {
  const compacted = await compact(body, window)
  assertValid(body, compacted)
  return { ...compacted, list: listOf(compacted.body) }
}

// -----------------------------------------------------------------------------
// Generated bodies
// -----------------------------------------------------------------------------

const scenario = fc
  .record({
    kind: fc.constantFrom<Scenario.Kind>("repository", "research", "analysis", "support", "operations"),
    seed: fc.nat(),
    rounds: fc.integer({ min: 1, max: 25 }),
    open: fc.boolean(),
    operator: fc.constantFrom(0, 0.7)
  })
  .map((options) => Scenario.make(options))

const flags = fc.record({
  thinking: fc.constantFrom<"enabled" | "adaptive" | undefined>("enabled", "adaptive", undefined),
  cached: fc.boolean(),
  reasons: fc.boolean(),
  thinks: fc.boolean(),
  ids: fc.boolean(),
  thoughts: fc.boolean(),
  pinned: fc.boolean()
})

type Flags = typeof flags extends fc.Arbitrary<infer A> ? A : never

const formats: Readonly<Record<string, (made: Scenario.Scenario, flags: Flags) => Body>> = {
  "anthropic-messages": (made, { thinking, cached }) =>
    Wire.anthropic(made, {
      // The first accepts no operator messages, the second no sampling and no thinking budget.
      model: thinking === "adaptive" ? "claude-opus-4-8" : "claude-sonnet-4-6",
      maxTokens: 3_000,
      cached,
      ...(thinking === undefined ? {} : { thinking })
    }),
  "openai-chat": (made, { reasons, thinks }) =>
    Wire.chat(made, { model: reasons ? "gpt-5.5" : "gpt-4.1", maxTokens: 3_000, reasons, thinks }),
  gemini: (made, { ids, thoughts }) =>
    Wire.gemini(made, { model: "gemini-3-flash", maxTokens: 3_000, ids, thoughts, named: true }),
  "effect-ai": (made, { pinned }) => Wire.effect(made, { pinned })
}

describe.each(Object.entries(formats))("generated bodies: %s", (format, bodyOf) => {
  it("are written back unchanged", () => {
    fc.assert(
      fc.property(scenario, flags, (made, flags) => {
        const body: Body = JSON.parse(JSON.stringify(bodyOf(made, flags)))
        const transcript = read(body)
        assert.strictEqual(transcript.format, format)
        assert.deepStrictEqual(transcript.write(transcript.prompt), body)
      }),
      { numRuns: Sweeps.runs(60) }
    )
  })

  it("are valid and accepted by their provider after compaction", async () => {
    let fitted = 0
    let accepted = 0
    await fc.assert(
      fc.asyncProperty(
        scenario,
        flags,
        fc.double({ min: 0.2, max: 1.05, noNaN: true }),
        async (made, flags, share) => {
          const body: Body = JSON.parse(JSON.stringify(bodyOf(made, flags)))
          const window = Math.ceil(share * tokensOf(read(body)))
          const compacted = await compact(body, window).catch((error: unknown) => {
            // A short one may consist only of its goal and its end.
            assert.deepInclude(error, { _tag: "CannotFit" })
          })
          if (compacted === undefined) return
          fitted++
          if (compacted.report.tier === "none") assert.deepStrictEqual(compacted.body, body)
          else assertValid(body, compacted)
          // Not every generated body is accepted by its model.
          if (refusalOf(format, body) !== undefined) return
          accepted++
          assert.isUndefined(refusalOf(format, compacted.body))
        }
      ),
      { numRuns: Sweeps.runs(60) }
    )
    assert.isAtLeast(fitted, Sweeps.runs(12))
    assert.isAtLeast(accepted, format === "effect-ai" ? 0 : Sweeps.runs(4))
  })
})

// -----------------------------------------------------------------------------
// Each format
// -----------------------------------------------------------------------------

describe("Anthropic Messages", () => {
  const messages = [
    { role: "user", content: "Mend it." },
    {
      role: "assistant",
      content: [
        { type: "thinking", thinking: "Look first.", signature: "c2ln" },
        { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: { query: "x" } },
        { type: "web_search_tool_result", tool_use_id: "srvtoolu_1", content: [] },
        {
          type: "tool_use",
          id: "toolu_1",
          name: "read",
          input: { path: "a.ts", note: long("note").repeat(3) }
        },
        { type: "tool_use", id: "toolu_2", name: "look", input: {} }
      ]
    },
    {
      role: "user",
      content: [
        {
          type: "tool_result",
          tool_use_id: "toolu_1",
          is_error: true,
          content: long("line"),
          cache_control: { type: "ephemeral" }
        },
        {
          type: "tool_result",
          tool_use_id: "toolu_2",
          content: [
            { type: "text", text: long("seen") },
            { type: "search_result", title: "x" }
          ]
        },
        { type: "text", text: "And be quick." }
      ]
    },
    { role: "assistant", content: "Done." },
    { role: "user", content: [{ type: "text", text: "Really?" }] },
    { role: "assistant", content: "Yes." },
    { role: "user", content: "Thanks." }
  ]

  it("cuts results and arguments, and keeps the other fields of their blocks", async () => {
    const body = { model: "claude-sonnet-4-5", max_tokens: 10, messages, unknown: { kept: 1 } }
    const { list, report } = await cutTo(body, 3_000)
    assert.strictEqual(report.tier, "strip")
    const [, asked, answered] = list
    const content = (asked?.["content"] ?? []) as ReadonlyArray<Body>
    const before = (messages[1]?.content ?? []) as ReadonlyArray<Body>
    assert.deepStrictEqual(content.slice(0, 3), before.slice(0, 3))
    assert.deepStrictEqual(content[3], {
      type: "tool_use",
      id: "toolu_1",
      name: "read",
      input: { path: "a.ts", note: "[5,997 characters left out.]" }
    })
    assert.deepStrictEqual(answered?.["content"], [
      {
        type: "tool_result",
        tool_use_id: "toolu_1",
        is_error: true,
        content: "[Result of read left out: 1,999 characters.]",
        cache_control: { type: "ephemeral" }
      },
      {
        type: "tool_result",
        tool_use_id: "toolu_2",
        content: "[Result of look left out: 2,036 characters.]"
      },
      { type: "text", text: "And be quick." }
    ])
  })

  it("cuts a large result around its image", async () => {
    const result = {
      type: "tool_result",
      tool_use_id: "t",
      content: [
        { type: "text", text: long("seen").repeat(12) },
        { type: "image", source: { type: "base64", media_type: "image/png", data: Scenario.png } }
      ]
    }
    const body = {
      model: "claude-sonnet-4-5",
      max_tokens: 10,
      messages: [
        { role: "user", content: "Look." },
        { role: "assistant", content: [{ type: "tool_use", id: "t", name: "look", input: {} }] },
        { role: "user", content: [result] }
      ]
    }
    const { body: after, report } = await compact(body, 6_000)
    assert.strictEqual(report.tier, "cap")
    const [block] = (listOf(after)[2]?.["content"] ?? []) as ReadonlyArray<Body>
    const [text, image] = (block?.["content"] ?? []) as ReadonlyArray<Body>
    assert.match(String(text?.["text"]), /^seen [^[]*\[[\d,]+ characters in the middle left out\.\]/)
    assert.deepStrictEqual(image, result.content[1])
  })

  it("keeps a message of the role system where the API accepts it", async () => {
    const turn = (n: number) => [
      { role: "assistant", content: [{ type: "tool_use", id: `t${n}`, name: "read", input: {} }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: `t${n}`, content: `ok ${n}` }] },
      { role: "assistant", content: long(`said ${n}`) },
      { role: "user", content: `More ${n}.` },
      { role: "system", content: n === 1 ? [{ type: "text", text: `Rule ${n}.` }] : `Rule ${n}.` }
    ]
    const body = {
      model: "claude-opus-5",
      max_tokens: 10,
      messages: [{ role: "user", content: "Begin." }, ...[1, 2, 3, 4].flatMap(turn)]
    }
    const { list, report } = await cutTo(body, 2_000)
    assert.strictEqual(report.tier, "plain")
    const roles = list.map(({ role }) => role)
    for (const [i, role] of roles.entries()) {
      if (role !== "system") continue
      assert.strictEqual(roles[i - 1], "user")
      assert.include(["assistant", undefined], roles[i + 1])
    }
    assert.isTrue(roles.includes("system"))
  })

  it("treats consecutive assistant messages as one", () => {
    const body = {
      model: "claude-sonnet-4-5",
      max_tokens: 10,
      messages: [
        { role: "user", content: "Go." },
        { role: "assistant", content: [{ type: "tool_use", id: "t", name: "read", input: {} }] },
        { role: "assistant", content: "One moment." },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "t" }] }
      ]
    }
    const transcript = read(body)
    assert.deepStrictEqual(
      transcript.prompt.content.map(({ role }) => role),
      ["user", "assistant", "tool"]
    )
    assert.deepStrictEqual(transcript.write(transcript.prompt), body)
  })

  it("counts the system prompt, tools, documents and thinking", () => {
    const base = { model: "claude-sonnet-4-5", max_tokens: 10, messages: [{ role: "user", content: "Hi." }] }
    const tokens = (more: object) => tokensOf(read({ ...base, ...more })) - tokensOf(read(base))
    assert.isAtLeast(tokens({ system: long("rule") }), 450)
    assert.isAtLeast(tokens({ system: [{ type: "text", text: long("rule") }] }), 450)
    assert.isAtLeast(tokens({ tools: [{ name: "a", input_schema: { description: long("schema") } }] }), 450)
    const said = (block: object) => tokens({ messages: [{ role: "user", content: [block] }] })
    assert.isAtLeast(said({ type: "document", source: { type: "text", data: long("page") } }), 450)
    assert.isAtLeast(
      said({
        type: "document",
        source: { type: "base64", media_type: "application/pdf", data: Scenario.pdf }
      }),
      1_500
    )
    assert.isAtLeast(said({ type: "image", source: { type: "url", url: "no address" } }), 1_500)
    assert.isAtLeast(said({ type: "search_result", content: [{ type: "text", text: long("found") }] }), 450)
  })
})

describe("OpenAI Chat Completions", () => {
  const call = (id: string, args: string, more: object = {}) => ({
    id,
    type: "function",
    function: { name: "read", arguments: args },
    ...more
  })
  const rows = long("row").repeat(3)
  const body = {
    model: "gpt-4o",
    tools: [
      { type: "function", function: { name: "read" } },
      { type: "custom", custom: { name: "sql" } }
    ],
    messages: [
      { role: "system", content: "Be brief." },
      {
        role: "user",
        name: "ana",
        content: [{ type: "text", text: "Read it." }]
      },
      {
        role: "assistant",
        content: null,
        reasoning_content: "Hm.",
        audio: { id: "audio_1" },
        tool_calls: [
          call("c1", JSON.stringify({ text: long("arg") })),
          call("c2", JSON.stringify({ text: long("arg") }), {
            extra_content: { google: { thought_signature: "s" } }
          }),
          call("c3", `{"half": "${long("arg")}`),
          { id: "c4", type: "custom", custom: { name: "sql", input: long("select") } }
        ]
      },
      { role: "tool", tool_call_id: "c1", content: [{ type: "text", text: rows }] },
      { role: "tool", tool_call_id: "c2", content: rows },
      { role: "tool", tool_call_id: "c3", content: "ok", custom_field: 1 },
      { role: "tool", tool_call_id: "c4", content: "ok" },
      { role: "assistant", content: [{ type: "refusal", refusal: "No." }], refusal: "No." },
      { role: "user", content: "" },
      { role: "assistant", content: "Yes." },
      { role: "user", content: "Go on." }
    ]
  }

  it("cuts results and arguments, except signed, broken and non-JSON ones", async () => {
    const { list, report } = await cutTo(body, 5_600)
    assert.strictEqual(report.tier, "strip")
    const asked = list[2] ?? {}
    const [cut, ...others] = asked["tool_calls"] as ReadonlyArray<Body>
    assert.deepStrictEqual(cut, call("c1", JSON.stringify({ text: "[1,599 characters left out.]" })))
    assert.deepStrictEqual(others, body.messages[2]?.tool_calls?.slice(1))
    assert.deepInclude(asked, { content: null, reasoning_content: "Hm.", audio: { id: "audio_1" } })
    assert.deepStrictEqual(list[3], {
      role: "tool",
      tool_call_id: "c1",
      content: "[Result of read left out: 4,797 characters.]"
    })
    assert.deepStrictEqual(list[5], body.messages[5])
  })

  it("drops bound thinking together with the messages it was bound to", async () => {
    const { body: after } = await compact(body, 5_600, { bindsThinking: true })
    assert.notProperty(listOf(after)[2], "reasoning_content")
  })
})

describe("Gemini", () => {
  const answer = (response: object, more: object = {}) => ({
    functionResponse: { name: "read", response, ...more }
  })
  const called = { functionCall: { name: "read", args: { text: long("arg") } } }
  const body = {
    contents: [
      { role: "user", parts: [{ text: "Go." }] },
      {
        role: "model",
        parts: [{ ...called, thoughtSignature: "s" }, called, called, called, called]
      },
      {
        role: "user",
        parts: [
          answer({ output: long("row") }),
          answer({ error: long("trace"), code: 5 }),
          answer({ rows: [long("row")] }, { id: "r3" }),
          answer({ result: "ok" }),
          answer(
            { stdout: long("row") },
            { parts: [{ inlineData: { mimeType: "image/png", data: Scenario.png } }] }
          )
        ]
      },
      {
        role: "model",
        parts: [
          { text: "Hm.", thought: true },
          { text: "Yes.", thoughtSignature: "s" }
        ]
      },
      { parts: [{ executableCode: { code: "1" } }, { text: "More." }] },
      { role: "model", parts: [{ text: "Yes." }] },
      { role: "user", parts: [{ text: "Go on." }] }
    ]
  }

  it("cuts responses under their own name, and no signed arguments", async () => {
    const { list, report } = await cutTo(body, 3_000)
    assert.strictEqual(report.tier, "strip")
    const cut = (characters: string) => `[Result of read left out: ${characters} characters.]`
    const responses = ((list[2]?.["parts"] ?? []) as ReadonlyArray<Body>).map(
      ({ functionResponse }) => functionResponse
    )
    assert.deepStrictEqual(responses, [
      { name: "read", response: { output: cut("1,599") } },
      { name: "read", response: { error: cut("2,420") } },
      { name: "read", id: "r3", response: { output: cut("1,612") } },
      { name: "read", response: { result: "ok" } },
      { name: "read", response: { stdout: cut("1,619") } }
    ])
    const parts = (list[1]?.["parts"] ?? []) as ReadonlyArray<Body>
    assert.deepStrictEqual(parts[0], body.contents[1]?.parts[0])
    assert.deepStrictEqual(parts[1], {
      functionCall: { name: "read", args: { text: "[1,599 characters left out.]" } }
    })
  })

  it("pairs calls without ids by name and order", () => {
    const named = (name: string) => ({ functionCall: { name, args: {} } })
    const of = (name: string) => ({ functionResponse: { name, response: {} } })
    const contents = (...answers: ReadonlyArray<object>) => ({
      contents: [
        { role: "user", parts: [{ text: "Go." }] },
        { role: "model", parts: [named("a"), named("b"), named("a")] },
        { role: "user", parts: answers }
      ]
    })
    assert.strictEqual(problemOf(contents(of("a"), of("a"), of("b"))), "nothing")
    assert.match(
      problemOf(contents(of("a"), of("b"), of("b"))),
      /^contents\[2\]\.parts\[2\]\.functionResponse: a result/
    )
  })
})

describe("effect/ai", () => {
  it("keeps unknown fields and marks, and pinned messages", async () => {
    const text = (text: string, more: object = {}) => ({ type: "text", text, ...more })
    const result = {
      type: "tool-result",
      id: "c",
      name: "read",
      isFailure: false,
      result: { rows: long("row") },
      options: { outlast: { madeBy: "x" } },
      extra: 7
    }
    const body = {
      version: 3,
      content: [
        { role: "user", content: "Go." },
        { role: "user", content: [text(long("pinned"))], options: { outlast: { pinned: true } } },
        {
          role: "assistant",
          content: ["c", "d"].map((id) => ({ type: "tool-call", id, name: "read", params: {} })),
          extra: 1
        },
        { role: "tool", content: [result, { ...result, id: "d" }] },
        { role: "assistant", content: [{ type: "reasoning", text: long("hm") }, text("Yes.")] },
        {
          role: "user",
          content: [text("Well?")]
        },
        { role: "assistant", content: "Yes." },
        { role: "user", content: [text("Go on.")] }
      ]
    }
    const stripped = await cutTo(body, 2_200)
    assert.deepStrictEqual(stripped.list[3], {
      role: "tool",
      content: ["c", "d"].map((id) => ({
        ...result,
        id,
        result: "[Result of read left out: 1,610 characters.]",
        providerExecuted: false,
        options: { outlast: { madeBy: "x", cut: true } }
      }))
    })
    assert.deepStrictEqual(stripped.list[1], body.content[1])
    assert.strictEqual(stripped.body["version"], 3)
  })

  it("reads the export of a Chat, and a Chat reads its output", async () => {
    const turn = (n: number): ReadonlyArray<Prompt.MessageEncoded> => [
      { role: "assistant", content: [{ type: "tool-call", id: `c${n}`, name: "read", params: { n } }] },
      {
        role: "tool",
        content: [
          { type: "tool-result", id: `c${n}`, name: "read", isFailure: false, result: long("row") },
          { type: "tool-approval-response", approvalId: `a${n}`, approved: true }
        ]
      }
    ]
    const file = { type: "file", mediaType: "text/plain", data: new Uint8Array([104, 105]) } as const
    const exported = await Effect.gen(function* () {
      const chat = yield* Chat.fromPrompt([
        { role: "system", content: "Be brief." },
        { role: "user", content: [{ type: "text", text: "Go." }, file] },
        ...[1, 2, 3, 4, 5].flatMap(turn)
      ])
      return yield* chat.exportJson
    }).pipe(Effect.runPromise)
    const { body, report } = await cutTo(JSON.parse(exported), 3_000)
    assert.strictEqual(report.tier, "strip")
    const history = await Effect.flatMap(Chat.fromJson(JSON.stringify(body)), ({ history }) =>
      Ref.get(history)
    ).pipe(Effect.runPromise)
    assert.lengthOf(history.content, 12)
    assert.deepNestedInclude(history.content[3], {
      "content[0].result": "[Result of read left out: 1,599 characters.]",
      "content[1].approved": true
    })
  })

  it("marks the message that summarises others", async () => {
    const body: Body = JSON.parse(
      JSON.stringify(Wire.effect(Scenario.make({ kind: "support", seed: 1, rounds: 40 })))
    )
    const { list, report } = await cutTo(body, Math.floor(0.3 * tokensOf(read(body))))
    assert.strictEqual(report.tier, "plain")
    const messages = report.dropped.filter(({ what }) => what === "message").length
    assert.deepInclude(list[2], { role: "user", options: { outlast: { summary: { messages } } } })
  })
})
