/**
 * What tier 1 costs: large results and arguments are cut out of conversations of 1,000 and 10,000 messages, seen for
 * the first time (everything is counted) and in the next turn (only what is new is). Beside it the AI SDK's
 * `pruneMessages` on the same transcript, where that package is installed: time, tokens left, broken pairs.
 */
import { Effect } from "effect"
import { Prompt } from "effect/ai"
import { Compaction, CompactionPolicy, TokenCounter } from "@outlast/agent"
import type { Contender, Report } from "./measure.ts"
import { measure } from "./measure.ts"

const rounds = 9

/** Milliseconds that tier 1 may take for 10,000 messages. */
const most = 100
/** What ten times the messages may take, in times of the time. */
const growth = 12

const text = (said: string) => Prompt.makePart("text", { text: said })

/** An agent at work: every fourth message is of the user, the others are thoughts, calls and results. */
const transcript = (messages: number): ReadonlyArray<Prompt.Message> => {
  const all: Array<Prompt.Message> = [
    Prompt.makeMessage("system", { content: "You are an agent that works on a repository." }),
    Prompt.makeMessage("user", { content: [text("Make the tests pass.")] })
  ]
  for (let i = 0; all.length < messages; i++) {
    const path = `src/module-${i}.ts`
    all.push(
      Prompt.makeMessage("assistant", {
        content: [
          Prompt.makePart("reasoning", { text: `What could be wrong in ${path}?` }),
          Prompt.makePart("tool-call", {
            id: `call_${i}`,
            name: "read_file",
            params: { path },
            providerExecuted: false
          })
        ]
      }),
      Prompt.makeMessage("tool", {
        content: [
          Prompt.makePart("tool-result", {
            id: `call_${i}`,
            name: "read_file",
            result: `// ${path}\n`.padEnd(2_000, "export const value = compute(1, 2)\n"),
            isFailure: false,
            providerExecuted: false
          })
        ]
      }),
      Prompt.makeMessage("assistant", { content: [text(`${path} is fine.`)] }),
      Prompt.makeMessage("user", { content: [text("Then look at the next one.")] })
    )
  }
  return all.slice(0, messages)
}

const meter = TokenCounter.estimate.for(undefined)
const tokensOf = (messages: ReadonlyArray<Prompt.Message>): number =>
  messages.reduce((sum, message) => sum + meter.message(message), 0)

const policy: CompactionPolicy.CompactionPolicy = { ...CompactionPolicy.defaults, tiers: ["strip"] }

/** As nobody has counted them yet. */
const unseen = (messages: ReadonlyArray<Prompt.Message>): Prompt.Prompt =>
  Prompt.fromMessages(messages.map((message) => ({ ...message })))

const fit = (prompt: Prompt.Prompt, window: number): Effect.Effect<Prompt.Prompt> =>
  Effect.gen(function* () {
    const compaction = yield* Compaction.make({ policy })
    return (yield* compaction.fit(prompt, { window })).prompt
  }).pipe(Effect.scoped, Effect.orDie)

const contender = (name: string, times: number, run: () => unknown): Contender => ({
  name,
  times,
  run: async (count) => {
    for (let i = 0; i < count; i++) run()
  }
})

export const compaction = async ({ say, table }: Report): Promise<void> => {
  say(`Tier 1, ${rounds} rounds, Node ${process.version}`)
  const [thousand, tenThousand] = [transcript(1_000), transcript(10_000)]
  // So that nearly all of it has to be cut.
  const windowOf = (messages: ReadonlyArray<Prompt.Message>) => Math.floor(tokensOf(messages) * 0.3)
  const strip = (messages: ReadonlyArray<Prompt.Message>, window: number) => () =>
    Effect.runSync(fit(unseen(messages), window))
  const known = Prompt.fromMessages(tenThousand)
  const roomy = tokensOf(tenThousand) * 2

  const figures = await measure(
    [
      contender("1,000 messages, cut", 10, strip(thousand, windowOf(thousand))),
      contender("10,000 messages, cut", 1, strip(tenThousand, windowOf(tenThousand))),
      contender("10,000 messages, one turn more, nothing to cut", 10, () => {
        const next = Prompt.makeMessage("user", { content: [text("And the next?")] })
        Effect.runSync(fit(Prompt.fromMessages([...known.content, next]), roomy))
      })
    ],
    { rounds, calls: 1 }
  )
  table("Compaction, µs per conversation", figures)
  const [small, large] = figures
  if (small !== undefined && large !== undefined) {
    const slow = large.median > most * 1_000 ? `, above ${most} ms` : ""
    const steep = large.ratio > growth ? `, above ${growth}` : ""
    say(
      `10,000 messages: ${(large.median / 1_000).toFixed(1)} ms${slow}; ${large.ratio.toFixed(1)} times the time of 1,000${steep}`
    )
  }
  await beside({ say, table }, tenThousand)
}

// -----------------------------------------------------------------------------
// The AI SDK
// -----------------------------------------------------------------------------

/** As much of `ai` as is used here: it is no dependency of the bench. */
interface AiSdk {
  readonly pruneMessages: (options: {
    readonly messages: ReadonlyArray<ModelMessage>
    readonly reasoning: "before-last-message"
    readonly toolCalls: "before-last-4-messages"
  }) => ReadonlyArray<ModelMessage>
}

const installed = async (): Promise<AiSdk | undefined> => {
  const name = "ai"
  try {
    // Whatever the package is, only this function of it is called.
    return (await import(name)) as AiSdk
  } catch {
    return undefined
  }
}

/** The messages in the AI SDK's form. */
const modelMessages = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<ModelMessage> =>
  messages.map((message) =>
    message.role === "system"
      ? { role: message.role, content: message.content }
      : {
          role: message.role,
          content: message.content.map((part) => {
            if (part.type === "tool-call")
              return { type: part.type, toolCallId: part.id, toolName: part.name, input: part.params }
            if (part.type === "tool-result") {
              const output = { type: "text", value: part.result }
              return { type: part.type, toolCallId: part.id, toolName: part.name, output }
            }
            return part.type === "text" || part.type === "reasoning"
              ? { type: part.type, text: part.text }
              : part
          })
        }
  )

interface ModelPart {
  readonly type: string
  readonly toolCallId?: string
}
interface ModelMessage {
  readonly role: string
  readonly content: string | ReadonlyArray<ModelPart>
}

/** Calls without a result and results without a call. */
const brokenPairs = (messages: ReadonlyArray<ModelMessage>): number => {
  const open = new Set<string | undefined>()
  let broken = 0
  for (const { content } of messages) {
    if (typeof content === "string") continue
    for (const { type, toolCallId } of content) {
      if (type === "tool-call") open.add(toolCallId)
      else if (type === "tool-result" && !open.delete(toolCallId)) broken++
    }
  }
  return broken + open.size
}

const beside = async ({ say, table }: Report, messages: ReadonlyArray<Prompt.Message>): Promise<void> => {
  const sdk = await installed()
  if (sdk === undefined) return say("The package `ai` is not installed: no comparison.")
  const window = Math.floor(tokensOf(messages) * 0.3)
  const theirs = modelMessages(messages)
  const prune = () =>
    sdk.pruneMessages({
      messages: theirs,
      reasoning: "before-last-message",
      toolCalls: "before-last-4-messages"
    })
  table(
    "Beside the AI SDK on 10,000 messages, µs per conversation",
    await measure(
      [
        contender("Compaction, tier 1", 1, () => Effect.runSync(fit(unseen(messages), window))),
        contender("pruneMessages, which counts nothing", 1, prune)
      ],
      { rounds, calls: 1 }
    )
  )
  const left = (messages: ReadonlyArray<ModelMessage>): string =>
    `${messages.length} messages, about ${Math.round(JSON.stringify(messages).length / 4)} tokens, ${brokenPairs(messages)} broken pairs`
  say(`  before: ${left(theirs)}`)
  say(`  Compaction: ${left(modelMessages(Effect.runSync(fit(unseen(messages), window)).content))}`)
  say(`  pruneMessages: ${left(prune())}`)
}
