/** Replacements for everything that a target does not accept. */
import { assert, describe, it } from "@effect/vitest"
import { Prompt } from "effect/ai"
import { Dialect, Portable, Provenance, Wording } from "@outlast/agent/conversation"

const ref = { id: "me/m#KEY", provider: "me", model: "m", endpoint: "https://me.example", key: "KEY" }
const me = Provenance.of(ref)
const from = (other: Partial<Provenance.Provenance>, vendor: Prompt.ProviderOptions = {}) => ({
  ...vendor,
  outlast: { ...me, ...other }
})

/** Accepts everything. Each test restricts one rule. */
const lenient: Dialect.Dialect = {
  ...Dialect.defaults,
  namespaces: ["me"],
  callId: /^/,
  uniqueCallIds: false,
  toolName: /^/,
  system: "anywhere",
  ending: "any",
  alternates: false,
  callsFollowUser: false,
  assistantFiles: true
}

const adapt = (
  messages: ReadonlyArray<Prompt.MessageEncoded>,
  dialect: Partial<Dialect.Dialect> = {},
  wording?: Wording.Wording
) => Portable.adapt(Prompt.make(messages), { ref, dialect: { ...lenient, ...dialect }, wording })

/** Roles and the relevant content of each part, as text. */
const shown = ({ content }: Prompt.Prompt): ReadonlyArray<string> =>
  content.map((message) => {
    if (message.role === "system") return `system: ${message.content}`
    const parts = (message.content as ReadonlyArray<Prompt.Part>).map((part) => {
      switch (part.type) {
        case "text":
          return part.text
        case "reasoning":
          return `(${part.text})`
        case "tool-call":
          return `${part.name}#${part.id}`
        case "tool-result":
          return `#${part.id}${part.isFailure ? "!" : "="}${String(part.result)}`
        default:
          return part.type
      }
    })
    return `${message.role}: ${parts.join(" | ")}`
  })

type AssistantPart = Prompt.AssistantMessagePartEncoded

const user = (text: string): Prompt.MessageEncoded => ({ role: "user", content: [{ type: "text", text }] })
const assistant = (...content: ReadonlyArray<AssistantPart>): Prompt.MessageEncoded => ({
  role: "assistant",
  content
})
const system = (content: string): Prompt.MessageEncoded => ({ role: "system", content })
const text = (said: string, options: Prompt.ProviderOptions = {}): AssistantPart => ({
  type: "text",
  text: said,
  options
})
const thought = (said: string, options: Prompt.ProviderOptions = {}): AssistantPart => ({
  type: "reasoning",
  text: said,
  options
})
const call = (id: string, options: Prompt.ProviderOptions = {}, name = "look"): AssistantPart => ({
  type: "tool-call",
  id,
  name,
  params: {},
  options
})
const result = (id: string, said = id, name = "look"): Prompt.ToolMessagePartEncoded => ({
  type: "tool-result",
  id,
  name,
  isFailure: false,
  result: said
})
const results = (...content: ReadonlyArray<Prompt.ToolMessagePartEncoded>): Prompt.MessageEncoded => ({
  role: "tool",
  content
})

describe("thinking", () => {
  const signed = { me: { signature: "s" } }
  const kept = (options: Prompt.ProviderOptions, dialect: Partial<Dialect.Dialect> = {}) =>
    shown(adapt([user("x"), assistant(thought("t", options), text("a"))], dialect))[1] ===
    "assistant: (t) | a"

  it("is sent only to the target that made it (can1357/oh-my-pi#6379, decolua/9router#4136)", () => {
    assert.isTrue(kept(from({}, signed)))
    assert.isFalse(kept(from({ provider: "other" }, signed)))
    assert.isFalse(kept(from({ model: "other" }, signed)))
    assert.isFalse(kept(from({ key: "OTHER" }, signed)))
    assert.isFalse(kept(from({ endpoint: "https://other.example" }, signed)))
    assert.isFalse(kept(from({ continued: true }, signed)))
  })

  it("that is bound to the model is sent to all keys and endpoints of the model", () => {
    const bound = { bound: "model" } as const
    assert.isTrue(kept(from({ key: "OTHER", endpoint: "https://other.example" }, signed), bound))
    assert.isFalse(kept(from({ model: "other" }, signed), bound))
    assert.isFalse(kept(from({ continued: true }, signed), bound))
  })

  it("of a foreign conversation is judged by its signatures", () => {
    assert.isTrue(kept(signed))
    assert.isFalse(kept({ other: { signature: "s" } }))
    assert.isFalse(kept({}))
    assert.isTrue(kept({}, { thinking: "plain" }))
    assert.isFalse(kept({ other: { signature: "s" } }, { thinking: "plain" }))
  })

  it("is dropped for a target that accepts none, even its own (QwenLM/qwen-code#11045)", () => {
    assert.isFalse(kept(from({}, signed), { thinking: "none" }))
    assert.isFalse(kept({}, { thinking: "none" }))
  })

  it("gets a placeholder before a tool call when the target requires some (earendil-works/pi#3636)", () => {
    const foreign = assistant(
      thought("t", from({ model: "other" }, signed)),
      call("1", from({ model: "other" }))
    )
    const own = assistant(thought("u", from({}, signed)), call("2", from({})))
    const prompt = [
      user("x"),
      foreign,
      results(result("1")),
      own,
      results(result("2")),
      assistant(text("a")),
      user("y")
    ]
    const placeholder = "The thinking before this tool call is not recorded."
    assert.deepStrictEqual(
      adapt(prompt, { thinking: "required" }).content.flatMap((message) =>
        message.role !== "assistant"
          ? []
          : [message.content.flatMap((part) => (part.type === "reasoning" ? [part.text] : []))]
      ),
      [[placeholder], ["u"], []]
    )
  })

  it("is dropped with its message when no text follows", () => {
    const prompt = [
      user("x"),
      assistant(text("a"), thought("t", from({}, signed))),
      assistant(thought("u", signed)),
      user("y")
    ]
    assert.deepStrictEqual(shown(adapt(prompt)), ["user: x", "assistant: a", "user: y"])
  })

  it("is dropped when it is unfinished", () => {
    const prompt = [user("x"), assistant(thought("t", { outlast: { ...me, partial: true } }), text("a"))]
    assert.deepStrictEqual(shown(adapt(prompt)), ["user: x", "assistant: a"])
  })
})

describe("signatures of texts and calls", () => {
  const options = { me: { id: "item", cacheControl: { type: "ephemeral" } } }
  const optionsAt = (maker: Partial<Provenance.Provenance>, dialect: Partial<Dialect.Dialect> = {}) => {
    const adapted = adapt(
      [user("x"), assistant(text("a", from(maker, options)), call("1", from(maker, options)))],
      dialect
    )
    const { content } = adapted.content[1] as Prompt.AssistantMessage
    return content.map((part) => part.options["me"])
  }

  it("are sent only to their maker; settings of the user are sent to all", () => {
    assert.deepStrictEqual(optionsAt({}), [options.me, options.me])
    const settings = { cacheControl: { type: "ephemeral" } }
    assert.deepStrictEqual(optionsAt({ key: "OTHER" }), [settings, settings])
  })

  it("are replaced on the first call when the target requires one", () => {
    const unsignedCall = { namespace: "me", field: "sign", value: "lost" }
    const prompt = [
      user("x"),
      assistant(call("1", from({ model: "other" }, { me: { sign: "theirs" } })), call("2"))
    ]
    const adapted = adapt(prompt, { unsignedCall })
    const { content } = adapted.content[1] as Prompt.AssistantMessage
    assert.deepStrictEqual(
      content.map((part) => part.options["me"]),
      [{ sign: "lost" }, undefined]
    )
    const own = adapt([user("x"), assistant(call("1", from({}, { me: { sign: "mine" } })))], { unsignedCall })
    assert.deepStrictEqual((own.content[1] as Prompt.AssistantMessage).content[0]?.options["me"], {
      sign: "mine"
    })
  })
})

describe("calls and results", () => {
  it("are adjacent, in the order of the calls", () => {
    const prompt = [
      user("x"),
      assistant(call("1"), call("2")),
      results(result("2")),
      user("y"),
      results(result("1"))
    ]
    assert.deepStrictEqual(shown(adapt(prompt)), [
      "user: x",
      "assistant: look#1 | look#2",
      "tool: #1=1 | #2=2",
      "user: y"
    ])
  })

  it("include a result for an unanswered call that says so (openclaw/openclaw#8525)", () => {
    const wording = { ...Wording.defaults, unanswered: "kein Ergebnis" }
    assert.deepStrictEqual(shown(adapt([user("x"), assistant(call("1")), user("y")], {}, wording)), [
      "user: x",
      "assistant: look#1",
      "tool: #1!kein Ergebnis",
      "user: y"
    ])
  })

  it("lose a result without a call, and a second result (earendil-works/pi#4570)", () => {
    const prompt = [
      results(result("0")),
      user("x"),
      assistant(call("1")),
      results(result("1", "a"), result("1", "b"))
    ]
    assert.deepStrictEqual(shown(adapt(prompt)), ["user: x", "assistant: look#1", "tool: #1=a"])
  })

  it("are paired turn by turn when a server restarts its ids", () => {
    const turn = (said: string) => [assistant(call("0")), results(result("0", said))]
    const prompt = [user("x"), ...turn("a"), ...turn("b")]
    assert.deepStrictEqual(shown(adapt(prompt)), shown(Prompt.make(prompt)))
    const [, , first, , second] = shown(adapt(prompt, { uniqueCallIds: true }))
    assert.strictEqual(first, "tool: #0=a")
    assert.match(second ?? "", /^tool: #call_0_\w+=b$/)
  })

  it("match a result with the latest call of its id", () => {
    const prompt = [
      user("x"),
      assistant(call("0")),
      user("y"),
      assistant(call("0")),
      results(result("0", "b"))
    ]
    const [, , none, , , answered] = shown(adapt(prompt))
    assert.include(none, "#0!")
    assert.strictEqual(answered, "tool: #0=b")
  })

  it("keep approvals in place", () => {
    const allowed = { type: "tool-approval-response", approvalId: "a", approved: true } as const
    const adapted = adapt([
      user("x"),
      assistant(call("1")),
      results(allowed, result("1")),
      user("y"),
      results(allowed)
    ])
    assert.deepStrictEqual(shown(adapted).slice(2), [
      "tool: tool-approval-response | #1=1",
      "user: y",
      "tool: tool-approval-response"
    ])
  })

  it("keep approvals when results are reordered", () => {
    const allowed = { type: "tool-approval-response", approvalId: "a", approved: true } as const
    const prompt = [user("x"), assistant(call("1"), call("2")), results(allowed, result("2"), result("1"))]
    assert.deepStrictEqual(shown(adapt(prompt)).slice(2), [
      "tool: #1=1 | #2=2",
      "tool: tool-approval-response"
    ])
  })
})

describe("ids and names", () => {
  const idsOf = (ids: ReadonlyArray<string>, callId = Dialect.defaults.callId) => {
    const adapted = adapt(
      ids.flatMap((id) => [user("x"), assistant(call(id)), results(result(id))]),
      { callId }
    )
    const called = adapted.content.flatMap((message) =>
      message.role === "assistant" ? message.content.flatMap((part) => ("id" in part ? [part.id] : [])) : []
    )
    const answered = adapted.content.flatMap((message) =>
      message.role === "tool" ? message.content.flatMap((part) => ("id" in part ? [part.id] : [])) : []
    )
    assert.deepStrictEqual(called, answered)
    return called
  }

  it("do not change when the target accepts them", () => {
    assert.deepStrictEqual(idsOf(["call_1", "toolu_2"]), ["call_1", "toolu_2"])
  })

  it("become short and plain when rejected, stay distinct, and are the same in every call", () => {
    const refused = ["a|b", "a.b", "x".repeat(41), `${"x".repeat(41)}y`, "", "漢字"]
    const ids = idsOf(refused)
    for (const id of ids) assert.match(id, /^call_[a-zA-Z0-9_-]{1,32}$/)
    assert.lengthOf(new Set(ids), refused.length)
    assert.deepStrictEqual(idsOf(refused.slice(0, 3)), ids.slice(0, 3))
  })

  it("never become the id of another call", () => {
    const [first = ""] = idsOf(["a|b"])
    const ids = idsOf(["a|b", first, "a|b"])
    assert.lengthOf(new Set([ids[0], ids[1]]), 2)
  })

  it("of tools are rewritten in call and result", () => {
    const prompt = [user("x"), assistant(call("1", {}, "my.tool")), results(result("1", "r", "my.tool"))]
    const [, asked, told] = adapt(prompt, { toolName: Dialect.defaults.toolName }).content
    const name =
      asked?.role === "assistant" && asked.content[0]?.type === "tool-call" ? asked.content[0].name : ""
    assert.match(name, /^tool_mytool_\w+$/)
    assert.deepInclude(told?.role === "tool" ? told.content[0] : undefined, { name })
  })
})

describe("tools that a provider ran", () => {
  const use = (options: Prompt.ProviderOptions): ReadonlyArray<AssistantPart> => [
    {
      type: "tool-call",
      id: "s",
      name: "web_search",
      params: { q: "rome" },
      providerExecuted: true,
      options
    },
    {
      type: "tool-result",
      id: "s",
      name: "web_search",
      isFailure: false,
      result: ["sunny"],
      providerExecuted: true,
      options
    },
    text("Sunny.")
  ]

  it("are kept for that provider, and become texts for others", () => {
    const own = [user("x"), assistant(...use(from({})))]
    assert.deepStrictEqual(shown(adapt(own)), shown(Prompt.make(own)))
    assert.deepStrictEqual(shown(adapt([user("x"), assistant(...use(from({ provider: "other" })))])), [
      "user: x",
      'assistant: [web_search was used with {"q":"rome"}. Its result: ["sunny"]] | Sunny.'
    ])
  })

  it("become texts when another maker signed the result, because the call would have none", () => {
    const [call, result] = [use(from({}))[0], use(from({ provider: "other" }))[1]]
    const mixed = [user("x"), assistant(call as AssistantPart, result as AssistantPart)]
    assert.deepStrictEqual(shown(adapt(mixed)), [
      "user: x",
      'assistant: [web_search was used with {"q":"rome"}. Its result: ["sunny"]]'
    ])
  })

  it("become texts of limited length, with or without a result", () => {
    const [search] = use({})
    const long = assistant({ ...search, params: { q: "x".repeat(10_000) } } as AssistantPart)
    const [, said = ""] = shown(adapt([user("x"), long]))
    assert.isBelow(said.length, 2_200)
    assert.include(said, "It has no result.")
  })

  it("are returned unchanged while they run", () => {
    const [search] = use(from({}))
    const paused = [user("x"), assistant(text("Let me see."), search as AssistantPart)]
    assert.deepStrictEqual(shown(adapt(paused, { ending: "user" })), shown(Prompt.make(paused)))
    // A search followed by text is not paused.
    const said = [user("x"), assistant(search as AssistantPart, text("It is sunny."))]
    assert.deepStrictEqual(shown(adapt(said, { ending: "user" })).at(-1), "user: Go on.")
  })
})

describe("files", () => {
  const image = { type: "file", mediaType: "image/png", data: "AQ==" } as const
  const link = { ...image, data: new URL("https://example.com/a.png") }
  const pdf = { type: "file", mediaType: "application/pdf", fileName: "a.pdf", data: "AQ==" } as const

  it("are described in words when the target cannot read them", () => {
    const prompt: ReadonlyArray<Prompt.MessageEncoded> = [
      { role: "user", content: [{ type: "text", text: "x" }, image, link, pdf] }
    ]
    assert.deepStrictEqual(shown(adapt(prompt)), ["user: x | file | file | file"])
    assert.deepStrictEqual(shown(adapt(prompt, { files: ["image/"], linkedFiles: [] })), [
      "user: x | file | [A file that you cannot read: image/png] | [A file that you cannot read: a.pdf, application/pdf]"
    ])
  })

  it("from a model are described in words when the target accepts none", () => {
    const prompt = [user("x"), assistant(image, text("here"))]
    assert.deepStrictEqual(shown(adapt(prompt)), ["user: x", "assistant: file | here"])
    assert.deepStrictEqual(shown(adapt(prompt, { assistantFiles: false })), [
      "user: x",
      "assistant: [A file that you cannot read: image/png] | here"
    ])
  })

  it("in a tool result are described in words", () => {
    const seen = { ...result("1"), modelOutput: [image, pdf] } as Prompt.ToolMessagePartEncoded
    const adapted = adapt([user("x"), assistant(call("1")), results(seen)], { files: ["image/"] })
    const last = adapted.content.at(-1)
    const part = last?.role === "tool" ? last.content[0] : undefined
    assert.deepStrictEqual(part?.type === "tool-result" ? part.modelOutput?.map(({ type }) => type) : [], [
      "file",
      "text"
    ])
  })
})

describe("roles", () => {
  it("turn misplaced system messages into user messages", () => {
    const prompt = [system("s"), user("x"), assistant(text("a")), system("t"), user("y")]
    const said = ["system: s", "user: x", "assistant: a", "user: <system>\nt\n</system>", "user: y"]
    assert.deepStrictEqual(shown(adapt(prompt)), shown(Prompt.make(prompt)))
    assert.deepStrictEqual(shown(adapt(prompt, { system: "leading" })), said)
    assert.deepStrictEqual(shown(adapt(prompt, { system: "between" })), said)
    const between = [user("x"), system("s"), assistant(text("a")), user("y"), system("t")]
    assert.deepStrictEqual(shown(adapt(between, { system: "between" })), shown(Prompt.make(between)))
  })

  it("do not change when they are in place", () => {
    for (const prompt of [
      [system("s"), system("t")],
      [assistant(text("Good morning.")), user("x")]
    ]) {
      const made = Prompt.make(prompt)
      const dialect = { ...Dialect.defaults, alternates: false }
      assert.strictEqual(Portable.adapt(made, { ref, dialect }), made)
    }
  })

  it("lose empty texts and messages, unless nothing else is left", () => {
    const prompt = [user("x"), assistant(text("")), user(" "), assistant(text("a"), text("\n"))]
    assert.deepStrictEqual(shown(adapt(prompt)), ["user: x", "assistant: a"])
    assert.deepStrictEqual(shown(adapt([system("s"), user("")])), ["system: s", "user: "])
  })

  it("end with a user message where required (BerriAI/litellm#27967)", () => {
    const begun = [user("x"), assistant(text("The answer is "))]
    assert.deepStrictEqual(shown(adapt(begun)), ["user: x", "assistant: The answer is "])
    assert.deepStrictEqual(shown(adapt(begun, { ending: "prefill" })), [
      "user: x",
      "assistant: The answer is"
    ])
    const wording = { ...Wording.defaults, goOn: "Weiter." }
    // The text can be replaced (BerriAI/litellm#18229).
    assert.deepStrictEqual(shown(adapt(begun, { ending: "user" }, wording)).at(-1), "user: Weiter.")
    // An earlier assistant message is not a prefill.
    const silent = [...begun, user("")]
    assert.deepStrictEqual(shown(adapt(silent, { ending: "prefill" })).at(-1), "user: Go on.")
  })

  it("stay separate after a message with options for the target, which may mark the end of a cached part", () => {
    const marked = (namespace: string) => [
      { ...system("s"), options: { [namespace]: { cacheControl: { type: "ephemeral" } } } },
      system("t"),
      user("x")
    ]
    const dialect = { ...lenient, alternates: true }
    const prompt = Prompt.make(marked("me"))
    assert.strictEqual(Portable.adapt(prompt, { ref, dialect }), prompt)
    // Another provider does not read the mark.
    assert.deepStrictEqual(shown(adapt(marked("other"), dialect)), ["system: s\n\nt", "user: x"])
  })

  it("alternate where required, by merging messages of one role (vllm-project/vllm#6862)", () => {
    const prompt = [
      system("s"),
      system("t"),
      assistant(text("Good morning.")),
      user("x"),
      user("y"),
      assistant(text("a")),
      assistant(text("b"), call("1"), call("2")),
      results(result("1")),
      results(result("2")),
      user("z")
    ]
    assert.deepStrictEqual(shown(adapt(prompt, { alternates: true })), [
      "system: s\n\nt",
      "user: The beginning of this conversation is left out.",
      "assistant: Good morning.",
      "user: x | y",
      "assistant: a | b | look#1 | look#2",
      "tool: #1=1",
      "tool: #2=2",
      "user: z"
    ])
    assert.deepStrictEqual(shown(adapt(prompt)), shown(Prompt.make(prompt)))
  })

  it("put a user message before a call where required", () => {
    const calling = [assistant(text("a")), assistant(text("b"), call("1")), results(result("1")), user("x")]
    assert.deepStrictEqual(shown(adapt(calling, { callsFollowUser: true })), [
      "user: The beginning of this conversation is left out.",
      "assistant: a | b | look#1",
      "tool: #1=1",
      "user: x"
    ])
  })
})

it("a legal conversation stays the same object, even with thinking and calls", () => {
  const prompt = Prompt.make([
    system("s"),
    user("x"),
    assistant(
      thought("t", from({}, { me: { signature: "s" } })),
      text("a"),
      call("1", from({})),
      call("2", from({}))
    ),
    results(result("1")),
    results(result("2")),
    user("y")
  ])
  for (const dialect of [lenient, { ...Dialect.defaults, namespaces: ["me"] }]) {
    assert.strictEqual(Portable.adapt(prompt, { ref, dialect }), prompt)
  }
})

it("an unknown target gets only what every target accepts", () => {
  const prompt = Prompt.make([user("x"), system("s"), assistant(call("a|b", { other: { id: "i" } }))])
  const adapted = Portable.adapt(prompt, { ref })
  assert.deepStrictEqual(
    shown(adapted).map((line) => line.replace(/call_ab_\w+/, "ID")),
    [
      "user: x | <system>\ns\n</system>",
      "assistant: look#ID",
      "tool: #ID!There is no result: the tool was not run to its end."
    ]
  )
  assert.notInclude(JSON.stringify(adapted), '"other"')
})
