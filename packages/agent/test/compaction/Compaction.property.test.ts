/** Invariants for every conversation, every policy, and chains of compactions. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit } from "effect"
import { Prompt } from "effect/ai"
import * as fc from "fast-check"
import { Compaction, CompactionPolicy } from "@outlast/agent"
import { Marks, TokenCounter } from "@outlast/agent/compaction"
import type { Scripted } from "./support.ts"
import { scripted, terse } from "./support.ts"
import { conversation, steps } from "./generated.ts"
import { conversation as anyConversation } from "../conversation/generated.ts"
import * as Sweeps from "../../../../test/sweeps.ts"

const policies: Readonly<Record<string, CompactionPolicy.CompactionPolicy>> = {
  default: CompactionPolicy.defaults,
  "token tail": CompactionPolicy.tokenTail(400),
  codebuddy: CompactionPolicy.codebuddy,
  claw0: CompactionPolicy.claw0,
  s11: CompactionPolicy.s11,
  "strip only": { ...CompactionPolicy.defaults, tiers: ["cap", "strip"] }
}

/** Summarisers that work, and summarisers that fail. */
const summarisers: Readonly<Record<string, () => Effect.Effect<Scripted | undefined>>> = {
  none: () => Effect.succeed(undefined),
  terse: () => terse({ window: 1_500 }),
  "long-winded": () => scripted(() => "blah ".repeat(2_000), { window: 3_000 }),
  failing: () => scripted((_, n) => (n % 2 === 0 ? "SUMMARY" : Effect.die("broken")), { window: 1_200 })
}

const unlimited = { ...CompactionPolicy.defaults.thrash, poorGains: 1_000 }
const meter = TokenCounter.estimate.for(undefined)
const tokensOf = (prompt: Prompt.Prompt) => prompt.content.reduce((sum, one) => sum + meter.message(one), 0)
const printed = (prompt: Prompt.Prompt) => JSON.stringify(prompt.content, undefined, 1)

const calls = (message: Prompt.Message | undefined) =>
  message?.role === "assistant"
    ? message.content.flatMap((part) =>
        part.type === "tool-call" && !part.providerExecuted ? [part.id] : []
      )
    : []
const results = (message: Prompt.Message | undefined) =>
  message?.role === "tool"
    ? message.content.flatMap((part) => (part.type === "tool-result" ? [part.id] : []))
    : []

/** Calls whose results do not follow them, and results without calls. */
const brokenPairs = ({ content }: Prompt.Prompt): ReadonlyArray<string> => {
  const broken: Array<string> = []
  let due: Array<string> = []
  for (const message of content) {
    if (message.role !== "tool" && due.length > 0) broken.push(...due.splice(0))
    if (message.role === "assistant") due = [...calls(message)]
    for (const id of results(message)) {
      if (due.includes(id)) due.splice(due.indexOf(id), 1)
      else broken.push(id)
    }
  }
  return [...broken, ...due]
}

/** Results without calls. */
const strayResults = (prompt: Prompt.Prompt): ReadonlyArray<string> => {
  const made = new Set(prompt.content.flatMap(calls))
  return prompt.content.flatMap(results).filter((id) => !made.has(id))
}

const adjacentAnswers = ({ content }: Prompt.Prompt): number =>
  content.filter(({ role }, i) => role === "assistant" && content[i - 1]?.role === "assistant").length

const reasoning = (message: Prompt.Message) =>
  message.role === "assistant" ? message.content.filter(({ type }) => type === "reasoning") : []

/** The message without its thinking. */
const withoutThinking = (message: Prompt.Message) =>
  message.role === "assistant"
    ? { ...message, content: message.content.filter(({ type }) => type !== "reasoning") }
    : message

const check = (
  before: Prompt.Prompt,
  after: Prompt.Prompt,
  policy: CompactionPolicy.CompactionPolicy,
  binds: boolean
) => {
  assert.deepStrictEqual(brokenPairs(after), [])
  assert.isAtMost(tokensOf(after), tokensOf(before))
  const same = binds ? withoutThinking : (message: Prompt.Message) => message
  const kept = after.content.map(same).map((message) => JSON.stringify(message))
  const stays = (message: Prompt.Message) => assert.include(kept, JSON.stringify(same(message)))
  // System messages, pinned messages and the first user message are unchanged.
  for (const message of before.content)
    if (message.role === "system" || Marks.isPinned(message)) stays(message)
  const goal = before.content.find(
    (message) => message.role === "user" && Marks.summaryOf(message) === undefined
  )
  if (goal !== undefined) stays(goal)
  // The tail is unchanged, except for results that were cut because what must stay did not fit.
  if ("messages" in policy.tail) {
    const n = policy.tail.messages
    const cutIn = (message: Prompt.Message) =>
      message.role === "tool"
        ? message.content.filter((part) => part.type === "tool-result" && Marks.wholeOf(part) !== undefined)
            .length
        : 0
    for (const [i, message] of before.content.slice(-n).entries()) {
      const now = after.content.slice(-n)[i]
      assert(now !== undefined)
      if (cutIn(now) === cutIn(message) && cutIn(now) === 0) {
        assert.strictEqual(JSON.stringify(same(now)), JSON.stringify(same(message)))
      } else assert.deepStrictEqual(results(now), results(message))
    }
  }
  // Thinking is unchanged, or removed whole after the first edit.
  const edit = before.content.findIndex((message, i) => message !== after.content[i])
  for (const [i, message] of after.content.entries()) {
    for (const part of reasoning(message)) {
      const origin = before.content.find((one) => reasoning(one).includes(part))
      assert.isDefined(origin)
      if (binds && edit >= 0) assert.isBelow(i, edit)
      if (origin?.role === "assistant" && message.role === "assistant") {
        assert.strictEqual(message.content.indexOf(part), origin.content.indexOf(part))
      }
    }
  }
  if (!binds) {
    for (const message of after.content) {
      const origin = before.content.find(
        (one) => one.role === "assistant" && calls(one).length > 0 && calls(one)[0] === calls(message)[0]
      )
      if (origin !== undefined) assert.lengthOf(reasoning(message), reasoning(origin).length)
    }
  }
  // No two assistant messages become adjacent.
  assert.isAtMost(adjacentAnswers(after), adjacentAnswers(before))
}

describe.each(Object.entries(policies))("compaction, policy %s", (_, given) => {
  const policy = { ...given, thrash: unlimited }

  it.effect.each(Object.keys(summarisers))(
    "keeps what must stay, over chains of compactions; summariser: %s (openclaw/openclaw#8525, earendil-works/pi#4570, griffinmartin/opencode-claude-auth PR #263)",
    (name) =>
      Effect.promise(() =>
        fc.assert(
          fc.asyncProperty(
            conversation,
            fc.array(steps(100, 12), { maxLength: 3 }),
            fc.integer({ min: 400, max: 3_000 }),
            fc.boolean(),
            (first, more, window, bindsThinking) =>
              Effect.gen(function* () {
                const summariser = yield* summarisers[name]!()
                const compaction = yield* Compaction.make({ policy, summariser: summariser?.options })
                const request = { window, bindsThinking }
                let prompt = first
                for (const [n, next] of [[], ...more].entries()) {
                  // Call ids are unique within a conversation.
                  const renamed = JSON.parse(JSON.stringify(next).replaceAll(/call_(\d+)/g, `call_${n}x$1`))
                  prompt = Prompt.fromMessages([...prompt.content, ...Prompt.make(renamed).content])
                  // Results are capped when they enter.
                  prompt = yield* compaction.admit(prompt, request)
                  const print = JSON.stringify(prompt)
                  const exit = yield* Effect.exit(compaction.fit(prompt, request))
                  assert.strictEqual(JSON.stringify(prompt), print, "the original is as it was")
                  if (Exit.isFailure(exit)) {
                    const [reason] = exit.cause.reasons
                    assert.strictEqual(reason?._tag === "Fail" ? reason.error._tag : reason, "CannotFit")
                    continue
                  }
                  const { prompt: after, report } = exit.value
                  try {
                    check(prompt, after, policy, bindsThinking)
                  } catch (error) {
                    throw new Error(`${printed(prompt)}\n=>\n${printed(after)}`, { cause: error })
                  }
                  assert.strictEqual(report.tokensAfter, tokensOf(after))
                  assert.isAtMost(tokensOf(after), report.limit)
                  if (tokensOf(prompt) <= report.limit) assert.strictEqual(after, prompt)
                  else assert.isBelow(tokensOf(after), tokensOf(prompt))
                  const again = yield* compaction.fit(after, request)
                  assert.strictEqual(again.prompt, after, "idempotent")
                  prompt = after
                }
                for (const asked of summariser?.asked ?? []) {
                  assert.isAtMost(tokensOf(asked), summariser?.options.window ?? 0)
                }
              }).pipe(Effect.scoped, Effect.runPromise)
          ),
          { numRuns: Sweeps.runs(25) }
        )
      )
  )
})

describe("a conversation with broken pairs", () => {
  it.effect("has only whole pairs after a compaction", () =>
    Effect.promise(() =>
      fc.assert(
        fc.asyncProperty(anyConversation, (broken) =>
          Effect.gen(function* () {
            const compaction = yield* Compaction.make()
            const long = Prompt.make("x ".repeat(2_000)).content
            for (const prompt of [
              [...broken.content, ...long, ...Prompt.make("go on").content],
              [...Prompt.make("go").content, ...long, ...broken.content]
            ]) {
              const exit = yield* Effect.exit(compaction.fit(Prompt.fromMessages(prompt), { window: 1_000 }))
              if (Exit.isFailure(exit)) continue
              const last = exit.value.prompt.content.findLastIndex(({ role }) => role !== "tool")
              // Only the last call may still be open.
              const closed = Prompt.fromMessages(exit.value.prompt.content.slice(0, last))
              assert.deepStrictEqual(brokenPairs(closed), [])
              assert.deepStrictEqual(strayResults(exit.value.prompt), [])
            }
          }).pipe(Effect.scoped, Effect.runPromise)
        ),
        { numRuns: Sweeps.runs(200) }
      )
    )
  )
})
