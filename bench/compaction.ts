/**
 * The cost of tier 1: large results and arguments are cut from conversations of 1,000 and 10,000 messages, seen for
 * the first time (everything is counted). Also the cost of one more turn (only new messages are counted), and a
 * comparison with other libraries on the same transcript: see `compactionPeers.ts`.
 */
import { Effect, Exit, Scope } from "effect"
import { Prompt } from "effect/ai"
import { Compaction, CompactionPolicy } from "@outlast/agent"
import { TokenCounter } from "@outlast/agent/compaction"
import { beside } from "./compactionPeers.ts"
import type { Contender, Report } from "./measure.ts"
import { measure } from "./measure.ts"

const rounds = 9

/** Limit for tier 1 with 10,000 messages, in milliseconds. */
const most = 100
/** Limit for ten times as many messages, as a factor of the time. */
const growth = 12

const text = (said: string) => Prompt.makePart("text", { text: said })

/** The transcript of an agent: every fourth message is of the user, the others are thoughts, calls and results. */
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

/** New message objects, so that no count is cached. */
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

export const compaction = async (report: Report): Promise<void> => {
  const { say, table } = report
  say(`Tier 1, ${rounds} rounds, Node ${process.version}`)
  const [thousand, tenThousand] = [transcript(1_000), transcript(10_000)]
  // Small enough that nearly everything has to be cut.
  const windowOf = (messages: ReadonlyArray<Prompt.Message>) => Math.floor(tokensOf(messages) * 0.3)
  const strip = (messages: ReadonlyArray<Prompt.Message>, window: number) => () =>
    Effect.runSync(fit(unseen(messages), window))
  const figures = await measure(
    [
      contender("1,000 messages, cut", 10, strip(thousand, windowOf(thousand))),
      contender("10,000 messages, cut", 1, strip(tenThousand, windowOf(tenThousand)))
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
  await turns(report, thousand, tenThousand)
  await beside(report, tenThousand)
}

// -----------------------------------------------------------------------------
// One turn more
// -----------------------------------------------------------------------------

/** Turns of one conversation, each a message longer, with nothing to cut. */
const growing = (
  name: string,
  compaction: Compaction.Service,
  begin: ReadonlyArray<Prompt.Message>,
  isTold: boolean
): Contender => {
  const request = { window: tokensOf(begin) * 2, conversation: name, model: name }
  const first = Prompt.fromMessages(begin)
  let { content } = first
  const turn = Effect.gen(function* () {
    content = [...content, Prompt.makeMessage("user", { content: [text("And the next?")] })]
    const { prompt, report } = yield* compaction.fit(Prompt.fromMessages(content), request)
    if (isTold) yield* compaction.learn({ prompt, model: name, inputTokens: report.tokensBefore + 1 })
  })
  const times = 500
  return {
    name,
    times,
    run: async (count) => {
      content = first.content
      for (let i = 0; i < count; i++) Effect.runSync(Effect.orDie(turn))
    }
  }
}

const turns = async (
  { table }: Report,
  thousand: ReadonlyArray<Prompt.Message>,
  tenThousand: ReadonlyArray<Prompt.Message>
): Promise<void> => {
  const scope = Scope.makeUnsafe()
  const compaction = Effect.runSync(Effect.provideService(Compaction.make(), Scope.Scope, scope))
  // The baseline of any program: a new array with one more message.
  let copied: ReadonlyArray<unknown> = []
  const copying = contender("10,000 messages, only copied", 500, () => {
    copied = [...tenThousand, copied.length]
  })
  table(
    "One turn more, µs per turn",
    await measure(
      [
        growing("1,000 messages", compaction, thousand, false),
        growing("10,000 messages", compaction, tenThousand, false),
        growing("1,000 messages, and told what was reported", compaction, thousand, true),
        growing("10,000 messages, and told what was reported", compaction, tenThousand, true),
        copying
      ],
      { rounds, calls: 1 }
    )
  )
  Effect.runSync(Scope.close(scope, Exit.void))
}
