/**
 * Other libraries that shorten a conversation, next to Outlast: LangChain's summarisation middleware (with a
 * model that answers at once), `trimMessages` of its core, and the AI SDK's `pruneMessages`. Each gets the same
 * transcript in its own message types, and the same target size if it takes one. One rule counts all results.
 */
import type { BaseMessage } from "@langchain/core/messages"
import type { ModelMessage } from "ai"
import { Effect } from "effect"
import type { Prompt } from "effect/ai"
import { Prompt as Prompts } from "effect/ai"
import { Compaction, CompactionPolicy } from "@outlast/agent"
import { TokenCounter } from "@outlast/agent/compaction"
import type { Contender, Report } from "./measure.ts"
import { measure } from "./measure.ts"

/** Few: some take seconds. */
const rounds = 3

// -----------------------------------------------------------------------------
// One rule for all
// -----------------------------------------------------------------------------

/** A message of any library. */
interface Plain {
  readonly role: string
  /** Characters of all its content. */
  readonly characters: number
  readonly text: string
  readonly calls: ReadonlyArray<string>
  readonly results: ReadonlyArray<string>
}

const perToken = 4
const overhead = 4

const tokensOf = (messages: ReadonlyArray<Plain>): number =>
  messages.reduce(
    (sum, { characters, calls, results }) =>
      sum + Math.ceil(characters / perToken) + overhead * (1 + calls.length + results.length),
    0
  )

/** Results without a call before them, and calls without a result. */
const brokenPairs = (
  messages: ReadonlyArray<Plain>
): { readonly results: number; readonly calls: number } => {
  const open = new Set<string>()
  let stray = 0
  for (const { calls, results } of messages) {
    for (const id of calls) open.add(id)
    for (const id of results) if (!open.delete(id)) stray++
  }
  return { results: stray, calls: open.size }
}

const written = (value: unknown): string =>
  typeof value === "string" ? value : (JSON.stringify(value) ?? "")

const plain = (
  role: string,
  texts: ReadonlyArray<string>,
  calls: ReadonlyArray<{ readonly id: string; readonly said: string }> = [],
  results: ReadonlyArray<{ readonly id: string; readonly said: string }> = []
): Plain => {
  const parts = [...texts, ...calls.map(({ said }) => said), ...results.map(({ said }) => said)]
  return {
    role,
    characters: parts.reduce((sum, { length }) => sum + length, 0),
    text: texts.join("\n"),
    calls: calls.map(({ id }) => id),
    results: results.map(({ id }) => id)
  }
}

// -----------------------------------------------------------------------------
// Ours
// -----------------------------------------------------------------------------

const ofOurs = (message: Prompt.Message): Plain => {
  if (message.role === "system") return plain("system", [message.content])
  const parts: ReadonlyArray<Prompt.Part> = message.content
  return plain(
    message.role,
    parts.flatMap((part) => (part.type === "text" || part.type === "reasoning" ? [part.text] : [])),
    parts.flatMap((part) =>
      part.type === "tool-call" ? [{ id: part.id, said: part.name + written(part.params) }] : []
    ),
    parts.flatMap((part) =>
      part.type === "tool-result" ? [{ id: part.id, said: written(part.result) }] : []
    )
  )
}

const characters = (text: string): number => Math.ceil(text.length / perToken)
const counter = TokenCounter.make({ text: characters, json: characters, overhead })

const ours = (
  tiers: CompactionPolicy.CompactionPolicy["tiers"],
  messages: ReadonlyArray<Prompt.Message>,
  window: number
): ReadonlyArray<Prompt.Message> => {
  // New message objects, so that no count is cached.
  const prompt = Prompts.fromMessages(messages.map((message) => ({ ...message })))
  return Effect.gen(function* () {
    const compaction = yield* Compaction.make({ policy: { ...CompactionPolicy.defaults, tiers } })
    return (yield* compaction.fit(prompt, { window })).prompt.content
  }).pipe(
    Effect.scoped,
    Effect.provideService(TokenCounter.TokenCounter, counter),
    Effect.orDie,
    Effect.runSync
  )
}

// -----------------------------------------------------------------------------
// LangChain
// -----------------------------------------------------------------------------

const langChain = async () => {
  const { AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage, trimMessages } =
    await import("@langchain/core/messages")
  const { FakeListChatModel } = await import("@langchain/core/utils/testing")
  const { summarizationMiddleware } = await import("langchain")

  type Block =
    | { readonly type: "text"; readonly text: string }
    | { readonly type: "reasoning"; readonly reasoning: string }

  /** A message with an id, as in a state. */
  const from = (message: Prompt.Message, i: number): BaseMessage => {
    const id = `m${i}`
    if (message.role === "system") return new SystemMessage({ id, content: message.content })
    const said = ofOurs(message)
    if (message.role === "user") return new HumanMessage({ id, content: said.text })
    if (message.role === "tool") {
      const [part] = message.content
      if (part?.type !== "tool-result") throw new Error("a message of a tool without a result")
      return new ToolMessage({ id, content: written(part.result), tool_call_id: part.id, name: part.name })
    }
    return new AIMessage({
      id,
      content: message.content.flatMap((part): ReadonlyArray<Block> =>
        part.type === "text"
          ? [{ type: "text", text: part.text }]
          : part.type === "reasoning"
            ? [{ type: "reasoning", reasoning: part.text }]
            : []
      ),
      tool_calls: message.content.flatMap((part) =>
        part.type === "tool-call"
          ? // The calls of the transcript have one argument.
            [
              {
                type: "tool_call",
                id: part.id,
                name: part.name,
                args: part.params as Record<string, unknown>
              }
            ]
          : []
      )
    })
  }

  const plainOf = (message: BaseMessage): Plain => {
    const { content } = message
    const texts =
      typeof content === "string"
        ? [content]
        : content.map((block) => String(block["text"] ?? block["reasoning"] ?? ""))
    if (ToolMessage.isInstance(message)) {
      return plain("tool", [], [], [{ id: message.tool_call_id, said: texts.join("") }])
    }
    const calls = AIMessage.isInstance(message) ? (message.tool_calls ?? []) : []
    const role = HumanMessage.isInstance(message) ? "user" : message.type
    return plain(
      role,
      texts,
      calls.map(({ id = "", name, args }) => ({ id, said: name + written(args) }))
    )
  }

  // The counter gets the same messages thousands of times, so each is counted once, as in Outlast.
  const known = new WeakMap<BaseMessage, number>()
  const count = (message: BaseMessage): number => {
    const before = known.get(message)
    if (before !== undefined) return before
    const tokens = tokensOf([plainOf(message)])
    known.set(message, tokens)
    return tokens
  }
  const tokenCounter = (messages: Array<BaseMessage>): number => {
    let sum = 0
    for (const message of messages) sum += count(message)
    return sum
  }

  /**
   * The messages of a state, trimmed when they have more than `limit` tokens. The agent sends its system prompt itself.
   */
  const middleware = async (
    system: BaseMessage | undefined,
    messages: ReadonlyArray<BaseMessage>,
    limit: number,
    keep: number
  ): Promise<ReadonlyArray<BaseMessage>> => {
    const options = {
      model: new FakeListChatModel({ responses: ["SUMMARY"] }),
      trigger: { tokens: limit },
      keep: { tokens: keep },
      tokenCounter
    }
    // The type of the options is `never` under strict compiler options; the middleware checks them itself.
    const { beforeModel } = summarizationMiddleware(options as never)
    const hook = typeof beforeModel === "function" ? beforeModel : beforeModel?.hook
    if (hook === undefined) throw new Error("the middleware has no hook before a model")
    // The hook reads only the messages of the state, and the context of the runtime, which may be empty.
    const run = hook as unknown as (
      state: { readonly messages: ReadonlyArray<BaseMessage> },
      runtime: { readonly context: object }
    ) => Promise<{ readonly messages: ReadonlyArray<BaseMessage> } | undefined>
    const update = await run({ messages: [...messages] }, { context: {} })
    const left = update?.messages.filter((message) => !RemoveMessage.isInstance(message)) ?? messages
    return system === undefined ? left : [system, ...left]
  }

  const trim = (
    messages: ReadonlyArray<BaseMessage>,
    maxTokens: number,
    startOn?: "human"
  ): Promise<Array<BaseMessage>> =>
    trimMessages([...messages], {
      maxTokens,
      tokenCounter,
      strategy: "last",
      includeSystem: true,
      ...(startOn === undefined ? undefined : { startOn })
    })

  return { from, plainOf, middleware, trim }
}

// -----------------------------------------------------------------------------
// The AI SDK
// -----------------------------------------------------------------------------

/** The parts of an assistant message, without the kinds that the transcripts lack. */
type SdkPart = Exclude<Extract<ModelMessage, { role: "assistant" }>["content"], string>[number]

const toSdk = (message: Prompt.Message): ModelMessage => {
  if (message.role === "system") return { role: "system", content: message.content }
  if (message.role === "user") return { role: "user", content: ofOurs(message).text }
  if (message.role === "tool") {
    return {
      role: "tool",
      content: message.content.flatMap((part) =>
        part.type === "tool-result"
          ? [
              {
                type: "tool-result",
                toolCallId: part.id,
                toolName: part.name,
                output: { type: "text", value: written(part.result) }
              } as const
            ]
          : []
      )
    }
  }
  return {
    role: "assistant",
    content: message.content.flatMap((part): ReadonlyArray<SdkPart> =>
      part.type === "text" || part.type === "reasoning"
        ? [{ type: part.type, text: part.text }]
        : part.type === "tool-call"
          ? [{ type: "tool-call", toolCallId: part.id, toolName: part.name, input: part.params } as const]
          : []
    )
  }
}

const ofSdk = ({ role, content }: ModelMessage): Plain => {
  if (typeof content === "string") return plain(role, [content])
  return plain(
    role,
    content.flatMap((part) => (part.type === "text" || part.type === "reasoning" ? [part.text] : [])),
    content.flatMap((part) =>
      part.type === "tool-call" ? [{ id: part.toolCallId, said: part.toolName + written(part.input) }] : []
    ),
    content.flatMap((part) =>
      part.type === "tool-result" && part.output.type === "text"
        ? [{ id: part.toolCallId, said: part.output.value }]
        : []
    )
  )
}

// -----------------------------------------------------------------------------
// Side by side
// -----------------------------------------------------------------------------

interface Peer extends Contender {
  readonly left: () => Promise<ReadonlyArray<Plain>>
}

/** Results are checked after the rounds, so that only the work itself is timed. */
const peer = <M>(
  name: string,
  run: () => Promise<ReadonlyArray<M>> | ReadonlyArray<M>,
  plainOf: (message: M) => Plain
): Peer => ({
  name,
  run: async (count) => {
    for (let i = 0; i < count; i++) await run()
  },
  left: async () => (await run()).map(plainOf)
})

export const beside = async (
  { say, table }: Report,
  messages: ReadonlyArray<Prompt.Message>
): Promise<void> => {
  const { from, plainOf, middleware, trim } = await langChain()
  const { pruneMessages } = await import("ai")
  const before = messages.map(ofOurs)
  const window = Math.floor(tokensOf(before) * 0.3)
  const limit = Math.floor(window * CompactionPolicy.defaults.act)
  const downTo = Math.floor(window * CompactionPolicy.defaults.downTo)

  const theirs = messages.map(from)
  const [first, ...rest] = theirs
  const sdk = messages.map(toSdk)
  const prune = (): ReadonlyArray<ModelMessage> =>
    pruneMessages({
      messages: [...sdk],
      reasoning: "before-last-message",
      toolCalls: "before-last-4-messages"
    })
  const peers: readonly [Peer, ...Array<Peer>] = [
    peer("Compaction, results cut (strip)", () => ours(["cap", "strip"], messages, window), ofOurs),
    peer("Compaction, the end kept (plain)", () => ours(["plain"], messages, window), ofOurs),
    peer("LangChain, summarizationMiddleware", () => middleware(first, rest, limit, downTo), plainOf),
    peer("LangChain, trimMessages", () => trim(theirs, downTo), plainOf),
    peer("LangChain, trimMessages from a human on", () => trim(theirs, downTo, "human"), plainOf),
    peer("AI SDK, pruneMessages, which counts nothing", prune, ofSdk)
  ]
  table("Beside others on 10,000 messages, µs per conversation", await measure(peers, { rounds, calls: 1 }))

  const goal = before.find(({ role }) => role === "user")?.text
  const system = before.find(({ role }) => role === "system")?.text
  const saying = (name: string, left: ReadonlyArray<Plain>): void => {
    const { results, calls } = brokenPairs(left)
    const has = (text: string | undefined) => (left.some((one) => one.text === text) ? "kept" : "lost")
    const cells = [left.length, tokensOf(left)].map((n) => n.toLocaleString("en-US").padStart(10))
    const pairs = `${results} + ${calls}`.padStart(14)
    say(`  ${name.padEnd(width)}${cells.join("")}${pairs}${has(goal).padStart(8)}${has(system).padStart(8)}`)
  }
  const width = Math.max(...peers.map(({ name }) => name.length))
  say(
    `\nWhat is left, for a window of ${window.toLocaleString("en-US")} tokens and down to ${downTo.toLocaleString("en-US")}`
  )
  say(`  ${"".padEnd(width)}  messages    tokens  broken pairs    goal  system`)
  saying("before", before)
  for (const { name, left } of peers) saying(name, await left())
  say("Broken pairs: results without a call + calls without a result.")
}
