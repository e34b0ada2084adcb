/** Shared helpers for the tests of `outlast compact`: compaction of a body, and its invariants. */
import { Effect, Result } from "effect"
import { Compaction } from "@outlast/agent"
import { TokenCounter } from "@outlast/agent/compaction"
import type { Report } from "@outlast/agent/compaction"
import { FakeProvider } from "@outlast/testing"
import { assert } from "vitest"
import * as Compact from "#cli/compact/Compact"
import * as Detection from "#cli/compact/Detection"
import type { Transcript } from "#cli/compact/Transcript"

export type Json = { readonly [field: string]: unknown }

export const read = (body: unknown): Transcript => Result.getOrThrow(Detection.read(body))

/** Returns the error message for a broken body. */
export const problemOf = (body: unknown): string => {
  const found = Detection.read(body)
  return Result.isFailure(found) ? found.failure.message : "nothing"
}

export interface Compacted {
  readonly body: Json
  readonly report: Report.Report
  readonly before: Transcript
}

/** Compacts like the command, with no tokens reserved for the answer. */
export const compact = (
  body: unknown,
  window: number,
  options: Partial<Compaction.Request> = {}
): Promise<Compacted> =>
  Effect.gen(function* () {
    const before = read(body)
    const compaction = yield* Compaction.make({ policy: Compact.policyFor(before) })
    const { tools } = before
    const { prompt, report } = yield* compaction.fit(before.prompt, { window, tools, ...options })
    return { body: before.write(prompt), report, before }
  }).pipe(Effect.scoped, Effect.runPromise)

const meter = TokenCounter.estimate.for(undefined)

export const tokensOf = ({ prompt, tools }: Transcript): number =>
  prompt.content.reduce((sum, message) => sum + meter.message(message), meter.tools(tools))

// -----------------------------------------------------------------------------
// Invariants
// -----------------------------------------------------------------------------

/** A call or a result in a body, and the position of its message. */
interface Half {
  readonly at: number
  readonly id: string
  readonly what: "call" | "result"
}

export const listOf = (body: Json): ReadonlyArray<Json> => {
  const list = body["messages"] ?? body["contents"] ?? body["content"]
  assert.isArray(list)
  return list as ReadonlyArray<Json>
}

const objects = (list: unknown): ReadonlyArray<Json> => (Array.isArray(list) ? list : [])

/** Finds calls and results in the JSON by their field names alone. */
const halvesOf = (message: Json, at: number): ReadonlyArray<Half> => {
  const half = (what: Half["what"], id: unknown): Half => ({ at, what, id: String(id) })
  return [
    ...objects(message["tool_calls"]).map(({ id }) => half("call", id)),
    ...("tool_call_id" in message ? [half("result", message["tool_call_id"])] : []),
    ...objects(message["parts"]).flatMap(({ functionCall, functionResponse }) => [
      ...(functionCall === undefined ? [] : [half("call", (functionCall as Json)["name"])]),
      ...(functionResponse === undefined ? [] : [half("result", (functionResponse as Json)["name"])])
    ]),
    ...objects(message["content"]).flatMap((part) => {
      switch (part["type"]) {
        case "tool_use":
        case "tool-call":
          return [half("call", part["id"])]
        case "tool_result":
          return [half("result", part["tool_use_id"])]
        case "tool-result":
          return [half("result", part["id"])]
        default:
          return []
      }
    })
  ]
}

const roleOf = (message: Json): unknown => message["role"]

/** Every call has its result before the model's next output, and every result has its call. */
const assertPairs = (messages: ReadonlyArray<Json>): void => {
  let open: Array<string> = []
  for (const [at, message] of messages.entries()) {
    if (roleOf(message) === "assistant" || roleOf(message) === "model") {
      assert.isEmpty(open, `calls without results before message ${at}`)
    }
    for (const { what, id } of halvesOf(message, at)) {
      if (what === "call") open.push(id)
      else {
        assert.include(open, id, `a result without its call in message ${at}`)
        open = open.filter((_, i) => i !== open.indexOf(id))
      }
    }
  }
  assert.isEmpty(open, "calls without results at the end")
}

/** True when a message has the user's own text. */
export const isGoal = (message: Json): boolean =>
  roleOf(message) === "user" && halvesOf(message, 0).length === 0

const isSystem = (message: Json): boolean => roleOf(message) === "system" || roleOf(message) === "developer"

/** Returns all system messages among the others. */
const systemOf = (messages: ReadonlyArray<Json>): ReadonlyArray<unknown> =>
  messages
    .filter(isSystem)
    .flatMap(({ content }) => (Array.isArray(content) ? objects(content).map(({ text }) => text) : [content]))

/** Returns the fields of the body besides its messages. */
const othersOf = ({ messages: _m, contents: _c, content: _e, ...others }: Json): Json => others

/** Checks the invariants of a compacted body. */
export const assertValid = (
  original: Json,
  { body, report, before }: Compacted,
  { bindsThinking = false }: { readonly bindsThinking?: boolean } = {}
): void => {
  const [was, is] = [listOf(original), listOf(body)]
  assert.deepStrictEqual(othersOf(body), othersOf(original))
  assertPairs(is)
  assert.deepStrictEqual(systemOf(is), systemOf(was), "system messages")
  assert.deepStrictEqual(is.find(isGoal), was.find(isGoal), "the goal")
  const after = read(body)
  assert.isAtMost(tokensOf(after), report.limit)
  assert.isBelow(report.tokensAfter, report.tokensBefore)
  assert.approximately(report.tokensAfter, tokensOf(after), 8 * before.prompt.content.length)
  const capped = report.dropped.some(({ what, at }) => what === "result" && isLast(before, at))
  // System messages may have moved to the end, and were checked above.
  const endedWith = was.slice(-4).filter((message) => !isSystem(message))
  const endsWith = is.filter((message) => !isSystem(message)).slice(-endedWith.length)
  if (bindsThinking || capped) assert.lengthOf(endsWith, endedWith.length)
  else assert.deepStrictEqual(endsWith, endedWith, "the end")
}

/** True for one of the last four messages of the body. */
const isLast = ({ prompt, sources, size }: Transcript, at: number): boolean => {
  const message = prompt.content[at]
  return message !== undefined && (sources.indexOf(message) ?? 0) >= size - 4
}

// -----------------------------------------------------------------------------
// Refusals by the providers
// -----------------------------------------------------------------------------

const paths: Readonly<Record<string, (model: string) => string>> = {
  "anthropic-messages": () => "/anthropic/v1/messages",
  "openai-chat": () => "/openai/v1/chat/completions",
  gemini: (model) => `/google/v1beta/models/${model}:generateContent`
}

/** Returns the path for a body of this format at a fake server. */
export const pathOf = (format: string, model: string): string => {
  const path = paths[format]
  assert.isDefined(path)
  return path(model)
}

/** Headers that all providers accept. */
export const headers = {
  "content-type": "application/json",
  "anthropic-version": "2023-06-01",
  "x-api-key": "sk-test",
  authorization: "Bearer sk-test",
  "x-goog-api-key": "sk-test"
}

/**
 * Returns the rule by which the strict fake of its provider refuses a body. `undefined` for a format without a
 * provider.
 */
export const refusalOf = (format: string, body: Json): string | undefined => {
  if (format === "effect-ai") return undefined
  const whole = pathOf(format, String(body["model"]).replace("models/", ""))
  const query = new URLSearchParams()
  const wire = FakeProvider.wires.find(
    ({ base, serves }) => whole.startsWith(`${base}/`) && serves({ path: whole.slice(base.length), query })
  )
  const read = wire?.read(
    { path: whole.slice(wire.base.length), query, headers, body: JSON.stringify(body) },
    {
      strict: true,
      models: undefined,
      window: () => undefined,
      organisation: "outlast",
      kept: () => undefined
    }
  )
  assert.isDefined(read)
  return read.refused ? `${read.rule}: ${read.message}` : undefined
}
