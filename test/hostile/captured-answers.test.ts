/**
 * Real answers of vendors, recorded by others (`../shared/captures`): each is served over HTTP, and read with the text,
 * the calls, the finish and the usage that its file says. The expectation is taken from the JSON of the file alone.
 *
 * The captures are not part of this repository. Without them the test says so, and is skipped.
 */
import { assert, describe, it } from "@effect/vitest"
import { Failover, KeySource } from "@outlast/agent"
import type { ModelInfo, ProviderModel } from "@outlast/agent"
import { Anthropic, Google, OpenAi, OpenAiCompatible, toAiSdk } from "@outlast/providers"
import { Warnings } from "@outlast/resilience"
import { Effect, Layer, ManagedRuntime, Redacted, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { policy } from "../services/Hasty.ts"
import * as RawServer from "./RawServer.ts"

const pieces = "Vertex streams arguments in pieces; Google.model speaks the API of AI Studio"
const declared = "a call of a tool that a program must declare first"

/** Files that no target reads, and why. */
const leftOut: Readonly<Record<string, string>> = {
  "google--google-stream-no-args-tool-call.chunks.txt": pieces,
  "google--google-stream-tool-call-arguments.chunks.txt": pieces,
  "google--google-stream-tool-call-array-arguments-missing-terminal-function-call.chunks.txt": pieces,
  "google--google-vertex-stream-tool-call-arguments-nested.1.chunks.txt": pieces,
  "openai-responses--parallel-tool-call-wrapper.1.chunks.txt": "its first and last event are not JSON",
  "openai-responses--openai-custom-tool.1.json": declared,
  "openai-responses--openai-custom-tool.1.chunks.txt": declared,
  "anthropic-skills--anthropic-skill-create.json": "an answer of the skills API, not of a model",
  "anthropic-skills--anthropic-skill-version-create.json": "an answer of the skills API, not of a model",
  "anthropic--spliced-message-start.chunks.txt":
    "two messages in one stream: a fault, which fails the attempt",
  "google--google-429-retry-info.json": "an error",
  "groq--groq-transcription-text.json": "an answer of a transcription API",
  "mistral--mistral-transcription.json": "an answer of a transcription API",
  "openai-chat--reasoning-model-legacy-parameter-error.json": "an error",
  "openai-responses--openai-error.1.json": "an error",
  "openai-responses--openai-error.1.chunks.txt": "an error",
  "openai-responses--reasoning-model-temperature-error.json": "an error"
}

const above = (folder: string): string | undefined => {
  const found = join(folder, "shared/captures/answers")
  if (existsSync(found)) return found
  return dirname(folder) === folder ? undefined : above(dirname(folder))
}

const folder = above(join(import.meta.dirname, "../.."))

// -----------------------------------------------------------------------------
// What a file says
// -----------------------------------------------------------------------------

interface Said {
  readonly text: string
  /** Name and arguments of the calls of functions. */
  readonly calls: ReadonlyArray<readonly [string, unknown]>
  readonly finish: string
  readonly input: number | undefined
  readonly output: number | undefined
}

/** JSON of any form. */
type Json = any

type Wire = "chat" | "messages" | "responses" | "gemini"

const wireOf = (first: Json): Wire | undefined => {
  if (first?.choices !== undefined) return "chat"
  if (first?.candidates !== undefined) return "gemini"
  if (first?.type === "message" || first?.type === "message_start" || first?.type === "ping")
    return "messages"
  return first?.object === "response" || String(first?.type).startsWith("response.") ? "responses" : undefined
}

const list = (value: Json): ReadonlyArray<Json> => (Array.isArray(value) ? value : [])
const args = (text: string): unknown => JSON.parse(text.trim() === "" ? "{}" : text)

const contentOf = (content: Json): string =>
  typeof content === "string"
    ? content
    : list(content)
        .map((part) => (part.type === "text" ? part.text : ""))
        .join("")

const ofChat = (bodies: ReadonlyArray<Json>): Said => {
  let text = ""
  let finish = ""
  let usage: Json
  const calls: Array<{ readonly index: Json; readonly name: string; text: string }> = []
  for (const body of bodies) {
    usage = body.usage ?? usage
    const choice = list(body.choices)[0]
    if (choice === undefined) continue
    const said = choice.message ?? choice.delta ?? {}
    text += contentOf(said.content) + (said.refusal ?? "")
    for (const [at, call] of list(said.tool_calls).entries()) {
      const index = call.index ?? at
      const known = calls.find((each) => each.index === index)
      if (known !== undefined) known.text += call.function.arguments ?? ""
      else calls.push({ index, name: call.function.name, text: call.function.arguments ?? "" })
    }
    finish = choice.finish_reason ?? finish
  }
  return {
    text,
    calls: calls.map((call) => [call.name, args(call.text)]),
    finish: { tool_calls: "tool-calls", content_filter: "content-filter" }[finish] ?? finish,
    input: usage?.prompt_tokens,
    output: usage?.completion_tokens
  }
}

const ofMessages = (bodies: ReadonlyArray<Json>): Said => {
  const blocks: Array<Json> = []
  let usage: Json = {}
  let finish = ""
  const counted = (given: Json = {}): void => {
    for (const [name, value] of Object.entries(given)) if (value !== null) usage = { ...usage, [name]: value }
  }
  for (const body of bodies) {
    switch (body.type) {
      case "message":
        blocks.push(...list(body.content))
        counted(body.usage)
        finish = body.stop_reason
        break
      case "message_start":
        // A message may be announced twice.
        blocks.length = 0
        counted(body.message.usage)
        blocks.push(...list(body.message.content))
        finish = body.message.stop_reason ?? finish
        break
      case "content_block_start":
        blocks.push({ ...body.content_block, of: body.index, json: "" })
        break
      case "content_block_delta": {
        const block = blocks.findLast(({ of }) => of === body.index)
        if (body.delta.type === "text_delta") block.text += body.delta.text
        if (body.delta.type === "compaction_delta")
          block.content = (block.content ?? "") + (body.delta.content ?? "")
        if (body.delta.type === "input_json_delta") block.json += body.delta.partial_json
        break
      }
      case "message_delta":
        counted(body.usage)
        finish = body.delta.stop_reason ?? finish
    }
  }
  // The usage of a compaction is that of all its iterations.
  const all = list(usage.iterations)
  const parts = all.some(({ type }) => type === "compaction") ? all : [usage]
  const sum = (name: string) => parts.reduce((total, part) => total + (part[name] ?? 0), 0)
  return {
    // The client shows the summary of a compaction as a text.
    text: blocks
      .map((block) =>
        block.type === "text" ? block.text : block.type === "compaction" ? (block.content ?? "") : ""
      )
      .join(""),
    calls: blocks
      .filter(({ type }) => type === "tool_use")
      .map(({ name, input, json }) => [name, json ? args(json) : input]),
    finish:
      {
        end_turn: "stop",
        stop_sequence: "stop",
        tool_use: "tool-calls",
        max_tokens: "length",
        refusal: "content-filter",
        pause_turn: "pause"
      }[finish] ?? finish,
    input: sum("input_tokens") + sum("cache_creation_input_tokens") + sum("cache_read_input_tokens"),
    output: sum("output_tokens")
  }
}

/** Items that the program runs, where the client says so in the finish. */
const ofProgram: ReadonlySet<unknown> = new Set(["function_call", "apply_patch_call"])

const texts: ReadonlySet<unknown> = new Set(["response.output_text.delta", "response.refusal.delta"])

const ofResponses = (bodies: ReadonlyArray<Json>): Said => {
  const last = bodies.at(-1)
  const response = last.response ?? last
  const done = bodies.filter(({ type }) => type === "response.output_item.done").map(({ item }) => item)
  const items = bodies.length === 1 ? list(response.output) : done
  const messages = items.filter(({ type }) => type === "message")
  const functions = items.filter(({ type }) => type === "function_call")
  const calls = functions.flatMap(({ name, arguments: given }): Array<readonly [string, unknown]> => {
    const input = args(given)
    return [[name, input]]
  })
  return {
    // Two files have shorter deltas than items. Those of one are no beginning of its items.
    text: messages
      .map((item) => {
        const whole = list(item.content)
          .map((part) => part.text ?? part.refusal ?? "")
          .join("")
        const own = bodies.filter(({ type, item_id: id }) => texts.has(type) && id === item.id)
        const streamed = own.map(({ delta }) => delta).join("")
        return whole.startsWith(streamed) ? whole : streamed
      })
      .join(""),
    calls,
    finish:
      response.incomplete_details?.reason ??
      (items.some(({ type }) => ofProgram.has(type)) ? "tool-calls" : "stop"),
    input: response.usage?.input_tokens,
    output: response.usage?.output_tokens
  }
}

const ofGemini = (bodies: ReadonlyArray<Json>): Said => {
  const parts = bodies.flatMap((body) => list(body.candidates?.[0]?.content?.parts))
  const usage = bodies.findLast((body) => body.usageMetadata !== undefined)?.usageMetadata
  const finish = bodies.findLast((body) => body.candidates?.[0]?.finishReason)?.candidates[0].finishReason
  const calls = parts
    .filter(({ functionCall }) => functionCall !== undefined)
    .map(({ functionCall }): readonly [string, unknown] => [functionCall.name, functionCall.args ?? {}])
  return {
    text: parts.map((part) => (part.thought === true ? "" : (part.text ?? ""))).join(""),
    calls,
    finish: finish === "STOP" ? (calls.length > 0 ? "tool-calls" : "stop") : finish,
    input: usage?.promptTokenCount,
    output: (usage?.candidatesTokenCount ?? 0) + (usage?.thoughtsTokenCount ?? 0)
  }
}

const saidBy = { chat: ofChat, messages: ofMessages, responses: ofResponses, gemini: ofGemini }

// -----------------------------------------------------------------------------
// What a program gets
// -----------------------------------------------------------------------------

const keys = [KeySource.value("KEY", Redacted.make("sk-test-0123456789abcdef"))]

const targetOf = (wire: Wire, file: string, url: string, isWhole: boolean): ProviderModel.TargetSpec => {
  const info: ModelInfo.ModelInfo = { wholeAnswers: isWhole ? "request" : "stream" }
  const baseUrl = `${url}/v1`
  // A name of its own for each chain.
  const model = file.replaceAll(/[^a-z0-9]+/g, "-")
  switch (wire) {
    case "messages":
      return Anthropic.model(model, { keys, info, baseUrl })
    case "responses":
      return OpenAi.model(model, { keys, info, baseUrl })
    case "gemini":
      return Google.model(model, { keys, info, baseUrl })
    case "chat":
      return file.startsWith("openai-chat")
        ? OpenAi.chatModel(model, { keys, info, baseUrl })
        : OpenAiCompatible.model({ name: "local", model, keys, info, baseUrl })
  }
}

type Part = {
  readonly type: string
  readonly text?: string
  readonly delta?: string
  readonly name?: string
  readonly toolName?: string
  readonly params?: unknown
  readonly input?: unknown
  readonly providerExecuted?: boolean | undefined
  readonly reason?: string
  readonly usage?: Json
}

const read = (parts: ReadonlyArray<Part>, names: ReadonlySet<string>): Said => {
  const finish = parts.find(({ type }) => type === "finish")
  return {
    text: parts
      .map(({ type, text, delta }) => (type === "text" ? text : type === "text-delta" ? delta : ""))
      .join(""),
    calls: parts
      .filter(({ type, providerExecuted }) => type === "tool-call" && providerExecuted !== true)
      .map((part): readonly [string, unknown] => [
        part.name ?? part.toolName ?? "",
        part.params ?? args(String(part.input))
      ])
      .filter(([name]) => names.has(name)),
    finish: finish?.reason ?? "",
    input: finish?.usage?.inputTokens.total,
    output: finish?.usage?.outputTokens.total
  }
}

/** One chain for all ways to read a file. */
type Runtime = ReturnType<typeof runtimeOf>

const runtimeOf = (target: ProviderModel.TargetSpec) =>
  ManagedRuntime.make(
    Failover.layer([target], { policy: { ...policy, maxAttempts: 1 } }).pipe(
      Layer.provideMerge(Warnings.layerOff)
    )
  )

const unresolved = {
  prompt: "hello",
  disableToolCallResolution: true,
  toolCallValidation: "deferred"
} as const

const throughEffect = async (runtime: Runtime, isStream: boolean): Promise<ReadonlyArray<Part>> => {
  const parts: ReadonlyArray<unknown> = isStream
    ? await runtime.runPromise(Stream.runCollect(LanguageModel.streamText(unresolved)))
    : (await runtime.runPromise(LanguageModel.generateText(unresolved))).content
  // Only the fields of `Part` are read.
  return parts as ReadonlyArray<Part>
}

const wholeThroughEffect: typeof throughEffect = (runtime) => throughEffect(runtime, false)

const throughAiSdk = async (runtime: Runtime, isStream: boolean): Promise<ReadonlyArray<Part>> => {
  const model = toAiSdk(runtime)
  const prompt = [{ role: "user" as const, content: [{ type: "text" as const, text: "hello" }] }]
  const parts: Array<Json> = []
  if (isStream) {
    for await (const part of (await model.doStream({ prompt })).stream) parts.push(part)
  } else {
    const { content, finishReason, usage } = await model.doGenerate({ prompt })
    parts.push(...content, { type: "finish", finishReason, usage })
  }
  return parts.map((part) =>
    part.type === "finish"
      ? { ...part, reason: part.finishReason.raw === "pause_turn" ? "pause" : part.finishReason.unified }
      : part
  )
}

/** The body, or the events of the first answer: some files hold several turns. */
const bodiesOf = (file: string): ReadonlyArray<string> => {
  const text = readFileSync(join(folder ?? "", file), "utf8")
  if (file.endsWith(".json")) return [text]
  const lines = text.split("\n").filter((line) => line.trim() !== "")
  const end = lines.findIndex((line) => lasts.has(parsed(line)?.type))
  return end === -1 ? lines : lines.slice(0, end + 1)
}

const lasts: ReadonlySet<unknown> = new Set(["message_stop", "response.completed", "response.incomplete"])

const parsed = (text: string): Json => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

describe("recorded answers of vendors", () => {
  if (folder === undefined) {
    it.skip("are not here: ../shared/captures is missing", () => {})
    return
  }
  const files = readdirSync(folder).filter((file) => leftOut[file] === undefined)

  it("are all known: each file that is left out exists", () => {
    const all = new Set(readdirSync(folder))
    assert.deepStrictEqual(
      Object.keys(leftOut).filter((file) => !all.has(file)),
      []
    )
  })

  for (const file of files) {
    it.live(`are read as the file says: ${file}`, () =>
      Effect.gen(function* () {
        const isStream = file.endsWith(".txt")
        const texts = bodiesOf(file)
        const bodies = texts.map(parsed).filter((body) => body !== undefined)
        const server = yield* RawServer.start((response) => {
          if (!isStream) {
            response.writeHead(200, { "content-type": "application/json" })
            return response.end(texts[0])
          }
          RawServer.head(response)
          for (const body of texts) {
            const name = parsed(body)?.type
            response.write(`${typeof name === "string" ? `event: ${name}\n` : ""}data: ${body}\n\n`)
          }
          response.end()
        })
        const wire = wireOf(bodies[0])
        if (wire === undefined) return assert.fail("of no known API")
        const expected = saidBy[wire](bodies)
        const names = new Set(expected.calls.map(([name]) => name))
        const runtime = runtimeOf(targetOf(wire, file, server.url, !isStream))
        yield* Effect.addFinalizer(() => Effect.promise(() => runtime.dispose()))
        const ways = [throughEffect, ...(isStream ? [wholeThroughEffect] : []), throughAiSdk]
        for (const way of ways) {
          if (expected.finish === "content-filter" && way !== throughAiSdk) {
            const error = yield* Effect.flip(Effect.tryPromise(() => way(runtime, isStream)))
            assert.include(String(error.cause), "refused the content")
            continue
          }
          const parts = yield* Effect.promise(() => way(runtime, isStream))
          const came = read(parts, names)
          assert.deepStrictEqual(
            {
              ...came,
              // An unknown count is not compared.
              input: expected.input === undefined ? undefined : came.input,
              output: expected.output === undefined ? undefined : came.output
            },
            expected
          )
        }
      })
    )
  }
})
